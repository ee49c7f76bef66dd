import { createCaller, createMethods } from "./createCaller.ts";
import type { Caller, ExportableList, List, Methods } from "./createCaller.ts";
import { createTransport } from "./createTransport.ts";
import type { CallOptions, TransportOptions } from "./createTransport.ts";
import { followEvents } from "./followEvents.ts";
import type { FollowOptions } from "./followEvents.ts";
import { OPERATIONS } from "./generated/standalone.ts";
import type { components, operations } from "./generated/standalone.ts";
import type { QueryOf, ResultOf } from "./operationTypes.ts";
import { checkHeaderValue } from "./parseOptions.ts";

export type ImpactClientOptions = TransportOptions & {
  /** `api_key_prod` or `api_key_test`. Never use it in a browser, where anyone can read it; public calls need no key. */
  readonly apiKey?: string;
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

type EventQuery = QueryOf<operations["listEvents"]>;

/** The standalone interface. Each method is named as its operation in the API description, which explains it. */
export type ImpactClient = Pick<Caller<operations>, "call"> &
  Omit<Methods<operations, keyof typeof LISTS>, "listEvents"> & {
    /** The events that can be read now, oldest first. */
    readonly listEvents: (
      query?: EventQuery,
      options?: CallOptions,
    ) => List<ResultOf<operations["listEvents"]>>;
    /** Yields events for ever, and polls for new ones; end it with the signal, or by leaving the loop. */
    readonly followEvents: (
      query?: EventQuery,
      options?: FollowOptions,
    ) => AsyncGenerator<StandaloneSchemas["Event"], void, void>;
    /** The numbers of a public dashboard. Needs no key, and works in browsers of any site. */
    readonly readDashboard: (
      slug: string,
      options?: CallOptions,
    ) => Promise<StandaloneSchemas["Dashboard"]>;
    /**
     * What a public certificate says. Needs no key, and works in browsers of any site.
     * @param urlOrToken its URL, of which the last part of the path counts, or that part
     */
    readonly readCertificate: (
      urlOrToken: string,
      options?: CallOptions,
    ) => Promise<StandaloneSchemas["Certificate"]>;
  };

const certificatePath = (urlOrToken: string): string => {
  const [path = ""] = urlOrToken.split(/[?#]/u);
  const segments = path.split("/").filter((segment) => segment !== "");
  return `/certificate/${encodeURIComponent(segments.at(-1) ?? "")}.json`;
};

/**
 * Returns a list whose loop yields each donation once. Their pages are counted, so a donation that is made meanwhile moves the
 * last one of a page to the next.
 */
const withoutRepetitions = <Page>(list: ExportableList<Page>): ExportableList<Page> => ({
  ...list,
  [Symbol.asyncIterator]: async function* donations() {
    const seen = new Set<string>();
    for await (const donation of list) {
      const { id } = donation as { readonly id: string };
      if (!seen.has(id)) {
        seen.add(id);
        yield donation;
      }
    }
  },
});

/** Creates a client of the standalone interface. */
export const createImpactClient = ({ apiKey, ...options }: ImpactClientOptions): ImpactClient => {
  const authentication =
    apiKey === undefined ? null : { Authorization: checkHeaderValue("apiKey", apiKey) };
  const transport = createTransport(options, authentication, ["error"]);
  const caller = createCaller<operations>(transport, OPERATIONS);
  const methods = createMethods(OPERATIONS, caller, LISTS);

  const readPublic = async (path: string, own: CallOptions = {}): Promise<never> =>
    (await transport.send({ method: "GET", path, isPublic: true }, own)).data as never;

  return {
    ...methods,
    call: caller.call,
    listDonations: (query, own) => withoutRepetitions(methods.listDonations(query, own)),
    followEvents: (query, own) => followEvents(methods.listEvents, query, own),
    readDashboard: (slug, own) => readPublic(`/dashboard/${encodeURIComponent(slug)}.json`, own),
    readCertificate: (urlOrToken, own) => readPublic(certificatePath(urlOrToken), own),
  };
};
