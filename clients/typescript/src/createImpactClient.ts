import { createMethods } from "./createMethods.ts";
import type { Methods, QueryOf, ReadNext } from "./createMethods.ts";
import { checkHeaderValue, createTransport, wait } from "./createTransport.ts";
import type { CallOptions, TransportOptions } from "./createTransport.ts";
import { OPERATIONS } from "./generated/standalone.ts";
import type { components, operations } from "./generated/standalone.ts";

export type ImpactClientOptions = TransportOptions & {
  /** `api_key_prod` or `api_key_test`. Never use it in a browser, where anyone can read it. */
  readonly apiKey: string;
};

/** The names of the standalone interface's objects, such as `StandaloneSchemas["Registration"]`. */
export type StandaloneSchemas = components["schemas"];

/** The lists, with the query of their pages. */
const LISTS = {
  listTrees: { first: 1000 },
  listBottles: { first: 1000 },
  listDonations: { page_size: 100 },
  listUsage: { limit: 1000 },
  listEvents: { limit: 1000 },
};

export type FollowOptions = CallOptions & {
  /** How long to wait when there are no more events; 5 seconds by default. */
  readonly pollIntervalMs?: number;
};

/** The standalone interface. Each method is named as its operation in the API description, which explains it. */
export type ImpactClient = Methods<operations, keyof typeof LISTS> & {
  /**
   * Yields events without end, and polls for new ones. End it with the signal, or by leaving the loop. Calls that keep failing
   * after their retries end it: go on after the last event that was processed.
   */
  readonly followEvents: (
    query?: QueryOf<operations["listEvents"]>,
    options?: FollowOptions,
  ) => AsyncGenerator<StandaloneSchemas["Event"], void, void>;
};

/** Reads the header `Link`. Only its query is used: the key is not sent to another host, whatever the link says. */
const readNext: ReadNext = ({ headers }) => {
  const { url } = /<(?<url>[^>]*)>;\s*rel="?next"?/u.exec(headers.get("Link") ?? "")?.groups ?? {};
  return url === undefined
    ? null
    : Object.fromEntries(new URL(url, "http://localhost").searchParams);
};

export const createImpactClient = ({ apiKey, ...options }: ImpactClientOptions): ImpactClient => {
  const authentication = { Authorization: checkHeaderValue("apiKey", apiKey) };
  const send = createTransport(options, authentication);
  const methods = createMethods<operations, keyof typeof LISTS>(send, OPERATIONS, LISTS, readNext);

  return {
    ...methods,
    followEvents: async function* follow(query = {}, { pollIntervalMs = 5_000, ...own } = {}) {
      let next = query;
      for (;;) {
        for await (const event of methods.listEvents(next, own)) {
          yield event;
          next = { ...query, starting_after: event.id };
        }
        await wait(pollIntervalMs, own.signal);
      }
    },
  };
};
