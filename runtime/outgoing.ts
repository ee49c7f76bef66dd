import net from "node:net";
import { getProxyForUrl } from "proxy-from-env";
import { alignProxyVariables } from "./config/proxies.ts";
import { lookUpHost } from "./resolveAddresses.ts";

/*
 * How this process reaches other companies: through the proxies that the environment names, and over whichever address of
 * a host responds. Webhooks and connections to PostgreSQL never use a proxy.
 */

/** An import of them would load Node's own undici, too, which takes a tenth of the CPU time of a short command. */
const http = process.getBuiltinModule("node:http");
const https = process.getBuiltinModule("node:https");

/** Node's 250 ms give up an address after one lost packet. This covers two, which TCP repeats after 1 and 3 seconds. */
const ADDRESS_TIMEOUT_MS = 3500;

/** As in Node's own global agent. */
const KEPT_CONNECTIONS = { keepAlive: true, scheduling: "lifo", timeout: 5000 } as const;

/** Undici takes a third of the CPU time of a short command, and few commands fetch anything. */
const configureFetch = async (): Promise<void> => {
  const { EnvHttpProxyAgent, setGlobalDispatcher } = await import("undici");
  setGlobalDispatcher(
    new EnvHttpProxyAgent({
      connect: {
        lookup: lookUpHost,
        autoSelectFamily: true,
        autoSelectFamilyAttemptTimeout: ADDRESS_TIMEOUT_MS,
      },
    }),
  );
};

/**
 * Sets up the outgoing connections of this process. Call it once, before the first connection.
 * @returns the variables of proxies that are ignored
 */
export const configureOutgoing = (): readonly string[] => {
  const { proxies, ignored } = alignProxyVariables();
  net.setDefaultAutoSelectFamilyAttemptTimeout(ADDRESS_TIMEOUT_MS);
  const options = { ...KEPT_CONNECTIONS, lookup: lookUpHost, proxyEnv: proxies };
  http.globalAgent = new http.Agent(options);
  https.globalAgent = new https.Agent(options);
  const { fetch } = globalThis;
  let configured: Promise<void> | null = null;
  globalThis.fetch = async (...request) => {
    configured ??= configureFetch();
    await configured;
    return fetch(...request);
  };
  return ignored;
};

/** Returns the proxy through which a URL is reached, or null. */
export const findProxy = (url: string): URL | null => {
  const proxy = getProxyForUrl(url);
  return proxy === "" ? null : new URL(proxy);
};

/**
 * Returns the response with a body that fails after this many bytes. The other side decides how much it sends, and
 * `text()` and `json()` would store all of it.
 */
export const boundBody = (response: Response, maximumBytes: number): Response => {
  if (response.body === null) {
    return response;
  }
  let size = 0;
  const limit = new TransformStream<Uint8Array, Uint8Array>({
    transform: (chunk, controller) => {
      size += chunk.length;
      if (size > maximumBytes) {
        throw new Error(`The response is longer than ${maximumBytes} bytes.`);
      }
      controller.enqueue(chunk);
    },
  });
  return new Response(response.body.pipeThrough(limit), response);
};
