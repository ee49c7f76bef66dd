import { inspect, isDeepStrictEqual } from "node:util";
import { z } from "zod";
import { Difference } from "./client.ts";
import type { Answer } from "./client.ts";

const show = (value: unknown): string =>
  inspect(value, { depth: 4, breakLength: Infinity, maxStringLength: 200 });

const describe = ({ status, text }: Answer): string =>
  `${status} ${text.length > 300 ? `${text.slice(0, 300)}…` : text}`;

export const expectEqual = (what: string, got: unknown, expected: unknown): void => {
  if (!isDeepStrictEqual(got, expected)) {
    throw new Difference(`${what}: expected ${show(expected)}, got ${show(got)}`);
  }
};

export const expectThat = (holds: boolean, what: string, got: unknown): void => {
  if (!holds) {
    throw new Difference(`${what}; got ${show(got)}`);
  }
};

export const expectStatus = (answer: Answer, ...statuses: readonly number[]): void => {
  if (!statuses.includes(answer.status)) {
    throw new Difference(
      `${answer.request}: expected ${statuses.join(" or ")}, got ${describe(answer)}`,
    );
  }
};

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

/** Returns the body of a 200, which must match the schema. */
export const expectBody = <Schema extends z.ZodType>(
  answer: Answer,
  schema: Schema,
): z.output<Schema> => {
  expectStatus(answer, 200);
  return parse(answer, schema);
};

const standaloneError = z.strictObject({ error: z.string().min(1) });
const storeError = z.looseObject({ error: z.string().min(1), code: z.string() });

const expectMessage = (answer: Answer, message: string, expected: RegExp | string): void => {
  if (typeof expected === "string" ? message !== expected : !expected.test(message)) {
    throw new Difference(
      `${answer.request}: expected the message ${String(expected)}, got ${message}`,
    );
  }
};

/** Expects an error of the standalone interface. */
export const expectError = (answer: Answer, status: number, message?: RegExp | string): void => {
  expectStatus(answer, status);
  const { error } = parse(answer, standaloneError);
  if (message !== undefined) {
    expectMessage(answer, error, message);
  }
};

/** Expects an error of the store interface. */
export const expectStoreError = (
  answer: Answer,
  status: number,
  code: string,
  message?: RegExp,
): void => {
  expectStatus(answer, status);
  const body = parse(answer, storeError);
  expectEqual(`${answer.request}: code`, body.code, code);
  if (message !== undefined) {
    expectMessage(answer, body.error, message);
  }
};
