import { setTimeout as delay } from "node:timers/promises";

/* HTTP requests to a server of the contract. The checks use nothing else: no database, no module of this service. */

/** A server does not do what the contract states. */
export class Difference extends Error {
  override readonly name = "Difference";
}

/** A check needs a key or an address that was not given. */
export class MissingSetting extends Error {
  override readonly name = "MissingSetting";
  readonly setting: string;

  constructor(setting: string) {
    super(`needs ${setting}`);
    this.setting = setting;
  }
}

const STANDALONE_KEYS = {
  test: "IMPACT_TEST_KEY",
  prod: "IMPACT_PROD_KEY",
  otherTest: "IMPACT_OTHER_TEST_KEY",
  unsubscribedProd: "IMPACT_UNSUBSCRIBED_PROD_KEY",
} as const;
export type StandaloneKey = keyof typeof STANDALONE_KEYS;

/** The environment variables of each store key and of the shop that it belongs to. */
const STORE_KEYS = {
  test: { key: "STORE_TEST_KEY", shop: "STORE_SHOP" },
  prod: { key: "STORE_PROD_KEY", shop: "STORE_SHOP" },
  otherTest: { key: "STORE_OTHER_TEST_KEY", shop: "STORE_OTHER_SHOP" },
} as const;
export type StoreKey = keyof typeof STORE_KEYS;

export type Target = {
  /** Base URLs without a slash at the end. */
  readonly standalone?: string | undefined;
  readonly store?: string | undefined;
  /** Keys and shops by the names of their environment variables. */
  readonly settings: Readonly<Record<string, string | undefined>>;
};

export type Answer = Awaited<ReturnType<typeof send>>;

type HeaderValues = Readonly<Record<string, string>>;

type RequestOptions = {
  readonly headers?: HeaderValues;
  /** Sent as JSON; strings and bytes are sent unchanged. */
  readonly body?: unknown;
};

type Side = "standalone" | "store";
export type Service = ReturnType<typeof createService>;

const TIMEOUT_MS = 60_000;
/** A check that waits longer than this for the rate limit of charities has found a stricter one. */
const RATE_LIMIT_RETRIES = 20;

const shorten = (text: string): string => (text.length > 200 ? `${text.slice(0, 200)}…` : text);

const encode = (body: unknown): string | Uint8Array<ArrayBuffer> => {
  if (typeof body === "string") {
    return body;
  }
  return body instanceof Uint8Array ? new Uint8Array(body) : JSON.stringify(body);
};

const send = async (method: string, url: string, { headers = {}, body }: RequestOptions = {}) => {
  const content = body === undefined ? undefined : encode(body);
  const { pathname, search } = new URL(url);
  const request = `${method} ${shorten(pathname + search)}${content === undefined ? "" : ` ${shorten(Buffer.from(content).toString())}`}`;
  try {
    const response = await fetch(url, {
      method,
      headers: { ...(content !== undefined && { "Content-Type": "application/json" }), ...headers },
      ...(content !== undefined && { body: content }),
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    const { status, headers: received } = response;
    /** `request` is the method, path and body, for messages. */
    return { request, status, headers: received, text: await response.text() };
  } catch (error) {
    const cause = error instanceof Error ? (error.cause ?? error) : error;
    throw new Difference(`${request}: expected a response, got ${String(cause)}`);
  }
};

/** Repeats a request that exceeded the contract's rate limit of the charity endpoints. */
const withinRateLimit = async (path: string, request: () => Promise<Answer>): Promise<Answer> => {
  let answer = await request();
  const retries = path.startsWith("/charities/") ? RATE_LIMIT_RETRIES : 0;
  for (let retry = 0; answer.status === 429 && retry < retries; retry += 1) {
    const seconds = Number(answer.headers.get("retry-after") ?? 1);
    await delay(seconds * 1000);
    answer = await request();
  }
  return answer;
};

export const createService = ({ standalone, store, settings }: Target) => {
  const setting = (name: string): string => {
    const value = settings[name];
    if (value === undefined || value === "") {
      throw new MissingSetting(name);
    }
    return value;
  };
  const baseUrl = (side: Side): string => {
    const url = side === "standalone" ? standalone : store;
    if (url === undefined) {
      throw new MissingSetting(`--${side}`);
    }
    return url;
  };
  /** Sends a request with only the given headers. */
  const request = (side: Side, method: string, path: string, options?: RequestOptions) =>
    send(method, baseUrl(side) + path, options);
  const clientOf = (side: Side, own: HeaderValues) => {
    const call = (method: string, path: string, { headers, body }: RequestOptions) =>
      withinRateLimit(path, () =>
        request(side, method, path, { headers: { ...own, ...headers }, body }),
      );
    return {
      get: (path: string, query: Readonly<Record<string, string>> = {}, headers = {}) => {
        const search = new URLSearchParams(query).toString();
        return call("GET", path + (search && `?${search}`), { headers });
      },
      post: (path: string, body?: unknown, headers = {}) => call("POST", path, { headers, body }),
    };
  };
  return {
    request,
    organization: (key: StandaloneKey = "test") =>
      clientOf("standalone", { Authorization: setting(STANDALONE_KEYS[key]) }),
    store: (key: StoreKey = "test") =>
      clientOf("store", {
        api_key: setting(STORE_KEYS[key].key),
        shop_name: setting(STORE_KEYS[key].shop),
      }),
    setting,
    /** Fetches a public URL that a response contained. */
    load: (url: string) => send("GET", url),
  };
};
