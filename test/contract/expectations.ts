import { inspect, isDeepStrictEqual } from "node:util";
import { z } from "zod";
import { Difference } from "./client.ts";
import type { Scene } from "./check.ts";
import type { Answer, Service } from "./client.ts";

const show = (value: unknown): string =>
  inspect(value, { depth: 4, breakLength: Infinity, maxStringLength: 200 });

const describe = ({ status, text }: Answer): string =>
  `${status} ${text.length > 300 ? `${text.slice(0, 300)}…` : text}`;

const parse = <Schema extends z.ZodType>(answer: Answer, schema: Schema): z.output<Schema> => {
  const type = answer.headers.get("content-type") ?? "none";
  if (!/^application\/json(?:;|$)/iu.test(type)) {
    throw new Difference(
      `${answer.request}: expected content of the type application/json, got ${type}`,
    );
  }
  let body: unknown;
  try {
    body = JSON.parse(answer.text);
  } catch {
    throw new Difference(`${answer.request}: expected JSON, got ${describe(answer)}`);
  }
  const result = schema.safeParse(body);
  if (!result.success) {
    const issues = result.error.issues.map(({ path, message }) => `${path.join(".")}: ${message}`);
    throw new Difference(
      `${answer.request}: ${issues.slice(0, 5).join("; ")}; got ${describe(answer)}`,
    );
  }
  return result.data;
};

const standaloneError = z.strictObject({ error: z.string().min(1) });
const storeError = z.looseObject({ error: z.string().min(1), code: z.string() });

const expectMessage = (answer: Answer, message: string, expected: RegExp | string = /^/u): void => {
  if (typeof expected === "string" ? message !== expected : !expected.test(message)) {
    throw new Difference(
      `${answer.request}: expected the message ${String(expected)}, got ${message}`,
    );
  }
};

export const expect = {
  equal: (what: string, got: unknown, expected: unknown): void => {
    if (!isDeepStrictEqual(got, expected)) {
      throw new Difference(`${what}: expected ${show(expected)}, got ${show(got)}`);
    }
  },
  that: (holds: boolean, what: string, got: unknown): void => {
    if (!holds) {
      throw new Difference(`${what}; got ${show(got)}`);
    }
  },
  /**
   * Expects an object to have these fields, among others.
   * @param query what the object was found with, for the message
   */
  fields: (got: object, expected: Readonly<Record<string, unknown>>, query?: object): void => {
    const fields: Readonly<Record<string, unknown>> = { ...got };
    const suffix = query === undefined ? "" : ` with ${JSON.stringify(query)}`;
    for (const [name, value] of Object.entries(expected)) {
      expect.equal(name + suffix, fields[name], value);
    }
  },
  status: (answer: Answer, ...statuses: readonly number[]): void => {
    if (!statuses.includes(answer.status)) {
      const expected = statuses.join(" or ");
      throw new Difference(`${answer.request}: expected ${expected}, got ${describe(answer)}`);
    }
  },
  /** Returns the body of a 200, which must match the schema. */
  body: <Schema extends z.ZodType>(answer: Answer, schema: Schema): z.output<Schema> => {
    expect.status(answer, 200);
    return parse(answer, schema);
  },
  error: (answer: Answer, status: number, message?: RegExp | string): void => {
    expect.status(answer, status);
    expectMessage(answer, parse(answer, standaloneError).error, message);
  },
  storeError: (answer: Answer, status: number, code: string, message?: RegExp): void => {
    expect.status(answer, status);
    const body = parse(answer, storeError);
    expect.equal(`${answer.request}: code`, body.code, code);
    expectMessage(answer, body.error, message);
  },
};

export const NO_OBJECTS = [
  "",
  "{",
  "nonsense",
  "[]",
  "null",
  "1",
  '"text"',
  '{"count":1',
  "{'count':1}",
];

export const NO_DATES = ["yesterday", "2026-13-01", "2026-02-30", "2026-1-1", "01.02.2026"];

/** Returns a query with each of the names and each of the values. */
export const queriesOf = (names: readonly string[], values: readonly string[]): readonly string[] =>
  names.flatMap((name) => values.map((value) => `?${name}=${encodeURIComponent(value)}`));

type Requests = { readonly bodies?: readonly unknown[]; readonly queries?: readonly string[] };

/** Returns a check that each POST of a body and each GET with a query is refused. */
const rejectsOn =
  (
    clientOf: (service: Service) => ReturnType<Service["store"]>,
    expectRefusal: (answer: Answer, message?: RegExp) => void,
  ) =>
  (path: string, { bodies = [], queries = [] }: Requests, message?: RegExp) =>
  async ({ service }: Scene): Promise<void> => {
    const { get, post } = clientOf(service);
    for (const body of bodies) {
      expectRefusal(await post(path, body), message);
    }
    for (const query of queries) {
      expectRefusal(await get(path + query), message);
    }
  };

/** With a 400 of the standalone interface. */
export const rejects = rejectsOn(
  (service) => service.organization(),
  (answer, message) => expect.error(answer, 400, message),
);

/** With one of the store interface. */
export const storeRejects = rejectsOn(
  (service) => service.store(),
  (answer, message) => expect.storeError(answer, 400, "INVALID_PARAMETER", message),
);
