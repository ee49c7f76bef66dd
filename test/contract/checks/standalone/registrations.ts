import { z } from "zod";
import { KIND_NAMES } from "../../../api/contract.ts";
import { Difference } from "../../client.ts";
import type { Service, StandaloneKey, Answer } from "../../client.ts";
import { expect } from "../../expectations.ts";
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
  const body: Record<string, unknown> = expect.body(
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

export const registrationsOf = (kind: Kind) => (service: Service) => {
  const names = KIND_NAMES[kind];
  const list = async (
    parameters: Readonly<Record<string, string>> = {},
    key: StandaloneKey = "test",
  ) => {
    const answer = await service.organization(key).get(names.path, parameters);
    return readBody(answer, names, listedRegistration);
  };
  return {
    list,
    register: async (body: Readonly<Record<string, unknown>>, key: StandaloneKey = "test") => {
      const answer = await service.organization(key).post(names.path, body);
      const { total, month, records } = readBody(answer, names, registration);
      return { total, month, record: only(answer, records) };
    },
    /** Expects a list to have exactly the records with these ids, in any order. */
    expectListed: async (parameters: Readonly<Record<string, string>>, ids: readonly string[]) => {
      const { records } = await list(parameters);
      const what = `ids in GET ${names.path} ${JSON.stringify(parameters)}`;
      expect.equal(what, records.map(({ id }) => id).toSorted(), ids.toSorted());
    },
    refund: (body: unknown, key: StandaloneKey = "test"): Promise<Answer> =>
      service.organization(key).post(names.refundPath, body),
    /** Returns what the response to a refund says, which must be a 200 of one registration. */
    readRefunded: (answer: Answer) => {
      const fields = { total: names.total, details: "refund_details" };
      const { body, total, records } = readBody(answer, fields, registration);
      const record = only(answer, records);
      return { refunded: body[names.refunded], total, record, refundId: body["refund_id"] };
    },
  };
};
