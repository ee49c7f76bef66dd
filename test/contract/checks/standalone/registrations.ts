import { z } from "zod";
import { KIND_NAMES } from "../../../api/contract.ts";
import { Difference } from "../../client.ts";
import type { Service, StandaloneKey, Answer } from "../../client.ts";
import { expectBody, expectEqual } from "../../expectations.ts";
import { listedRegistration, registration } from "../shapes.ts";

export type Kind = keyof typeof KIND_NAMES;
export const KINDS = ["tree", "bottle"] as const satisfies readonly Kind[];

const units = z.int().min(0);

/** Returns the totals and records of a body, which have other names for each kind. */
const readBody = <Item extends z.ZodType>(
  answer: Answer,
  { total, month = total, details }: { total: string; month?: string; details: string },
  item: Item,
) => {
  const records = z.array(item);
  const body: Record<string, unknown> = expectBody(
    answer,
    z.looseObject({ [total]: units, [month]: units, [details]: records }),
  );
  return {
    body,
    total: units.parse(body[total]),
    month: units.parse(body[month]),
    records: records.parse(body[details]),
  };
};

const only = <Item>(answer: Answer, items: readonly Item[]): Item => {
  const [item] = items;
  if (item === undefined || items.length > 1) {
    throw new Difference(`${answer.request}: expected one record, got ${items.length}`);
  }
  return item;
};

export const register = async (
  service: Service,
  kind: Kind,
  body: Readonly<Record<string, unknown>>,
  key: StandaloneKey = "test",
) => {
  const answer = await service.organization(key).post(KIND_NAMES[kind].path, body);
  const { total, month, records } = readBody(answer, KIND_NAMES[kind], registration);
  return { total, month, record: only(answer, records) };
};

/** Returns the records and the totals of a list with query parameters. */
export const list = async (
  service: Service,
  kind: Kind,
  parameters: Readonly<Record<string, string>> = {},
  key: StandaloneKey = "test",
) => {
  const query = new URLSearchParams(parameters).toString();
  const path = `${KIND_NAMES[kind].path}${query && `?${query}`}`;
  const answer = await service.organization(key).get(path);
  return readBody(answer, KIND_NAMES[kind], listedRegistration);
};

/** Expects a list to have exactly the records with these ids, in any order. */
export const expectListed = async (
  service: Service,
  kind: Kind,
  parameters: Readonly<Record<string, string>>,
  ids: readonly string[],
): Promise<void> => {
  const { records } = await list(service, kind, parameters);
  expectEqual(
    `ids in GET ${KIND_NAMES[kind].path} ${JSON.stringify(parameters)}`,
    records.map(({ id }) => id).toSorted(),
    ids.toSorted(),
  );
};

/** Returns what the response to a refund says, which must be a 200 of one registration. */
export const readRefunded = (kind: Kind, answer: Answer) => {
  const names = { total: KIND_NAMES[kind].total, details: "refund_details" };
  const { body, total, records } = readBody(answer, names, registration);
  return {
    refunded: body[KIND_NAMES[kind].refunded],
    total,
    record: only(answer, records),
    refundId: body["refund_id"],
  };
};

export const refund = (
  service: Service,
  kind: Kind,
  body: unknown,
  key: StandaloneKey = "test",
): Promise<Answer> => service.organization(key).post(KIND_NAMES[kind].refundPath, body);
