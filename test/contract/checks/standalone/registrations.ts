import { z } from "zod";
import { KIND_NAMES } from "../../../api/contract.ts";
import { Difference } from "../../client.ts";
import type { Service, StandaloneKey, Answer } from "../../client.ts";
import { expectBody, expectEqual } from "../../expectations.ts";
import { listedRegistration, registration } from "../shapes.ts";

export type Kind = keyof typeof KIND_NAMES;
export const KINDS = ["tree", "bottle"] as const satisfies readonly Kind[];

export type Registration = z.output<typeof registration>;
type Totals = { readonly total: number; readonly month: number };

const only = <Item>(answer: Answer, items: readonly Item[]): Item => {
  const [item] = items;
  if (item === undefined || items.length > 1) {
    throw new Difference(`${answer.request}: expected one record, got ${items.length}`);
  }
  return item;
};

/** Returns the record and the totals of the response to a registration. */
const readRegistered = (kind: Kind, answer: Answer): Totals & { readonly record: Registration } => {
  const names = KIND_NAMES[kind];
  const body = expectBody(
    answer,
    z.looseObject({
      [names.total]: z.int().min(0),
      [names.month]: z.int().min(0),
      [names.details]: z.array(registration),
    }),
  );
  return {
    total: Number(body[names.total]),
    month: Number(body[names.month]),
    record: only(answer, z.array(registration).parse(body[names.details])),
  };
};

export const register = async (
  service: Service,
  kind: Kind,
  body: Readonly<Record<string, unknown>>,
  key: StandaloneKey = "test",
) => readRegistered(kind, await service.organization(key).post(KIND_NAMES[kind].path, body));

/** Returns the records and the totals of a list with query parameters. */
export const list = async (
  service: Service,
  kind: Kind,
  parameters: Readonly<Record<string, string>> = {},
  key: StandaloneKey = "test",
): Promise<Totals & { readonly records: readonly z.output<typeof listedRegistration>[] }> => {
  const names = KIND_NAMES[kind];
  const query = new URLSearchParams(parameters).toString();
  const answer = await service.organization(key).get(`${names.path}${query && `?${query}`}`);
  const body = expectBody(
    answer,
    z.looseObject({
      [names.total]: z.int().min(0),
      [names.month]: z.int().min(0),
      [names.details]: z.array(listedRegistration),
    }),
  );
  return {
    total: Number(body[names.total]),
    month: Number(body[names.month]),
    records: z.array(listedRegistration).parse(body[names.details]),
  };
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

/** Returns the totals of the response to a refund, which must be a 200 of the given registration. */
export const readRefunded = (
  kind: Kind,
  answer: Answer,
): {
  readonly refunded: number;
  readonly total: number;
  readonly record: Registration;
  readonly refundId: string;
} => {
  const names = KIND_NAMES[kind];
  const body = expectBody(
    answer,
    z.looseObject({
      [names.refunded]: z.int().min(0),
      [names.total]: z.int().min(0),
      refund_details: z.array(registration),
      refund_id: z.string(),
    }),
  );
  return {
    refunded: Number(body[names.refunded]),
    total: Number(body[names.total]),
    record: only(answer, z.array(registration).parse(body["refund_details"])),
    refundId: z.string().parse(body["refund_id"]),
  };
};

export const refund = (
  service: Service,
  kind: Kind,
  body: unknown,
  key: StandaloneKey = "test",
): Promise<Answer> => service.organization(key).post(KIND_NAMES[kind].refundPath, body);
