import type { z } from "zod";
import { boundBody } from "../../../runtime/outgoing.ts";
import { CharityProviderError } from "../provider.ts";

/** Far more than a page of charities needs. */
const MAXIMUM_BYTES = 4 * 1024 * 1024;

export type JsonRequest = {
  readonly url: string;
  readonly parameters?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
};

/** A failure that a retry may not have. */
export class TemporaryError extends CharityProviderError {}

/**
 * Fetches JSON from a provider.
 * @param title what errors name the request by, because they are logged, and URLs may hold a key or what a client searches for
 * @returns null for a 404
 * @throws CharityProviderError for every other failure
 */
export const fetchJson = async <Schema extends z.ZodType>(
  title: string,
  { url, parameters = {}, headers = {} }: JsonRequest,
  schema: Schema,
  signal: AbortSignal,
): Promise<z.output<Schema> | null> => {
  const target = new URL(url);
  target.search = new URLSearchParams(parameters).toString();
  let json: unknown;
  try {
    const response = await fetch(target, {
      headers: { accept: "application/json", ...headers },
      signal,
      // A redirect could send our key to another host.
      redirect: "error",
    });
    if (!response.ok) {
      await response.body?.cancel();
      if (response.status === 404) {
        return null;
      }
      const isTemporary = response.status === 429 || response.status >= 500;
      throw new (isTemporary ? TemporaryError : CharityProviderError)(
        `${title}: status ${response.status}`,
      );
    }
    json = await boundBody(response, MAXIMUM_BYTES).json();
  } catch (cause) {
    if (cause instanceof CharityProviderError) {
      throw cause;
    }
    const failure =
      cause instanceof SyntaxError ? "the response is not JSON" : "the request failed";
    throw new TemporaryError(`${title}: ${failure}`, { cause });
  }
  const { data, error } = schema.safeParse(json);
  if (error) {
    throw new CharityProviderError(`${title}: unexpected response format`, { cause: error });
  }
  return data;
};
