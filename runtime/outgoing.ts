import net from "node:net";
import { getProxyForUrl } from "proxy-from-env";

/*
 * How this process reaches other companies: through the proxies that the environment names, and over whichever address of
 * a host responds. Webhooks and connections to PostgreSQL never use a proxy.
 */

/** An import of it would load Node's own undici, too, which takes a tenth of the CPU time of a short command. */
const http = process.getBuiltinModule("node:http");

/** Node's 250 ms give up an address after one lost packet. This covers two, which TCP repeats after 1 and 3 seconds. */
const ADDRESS_TIMEOUT_MS = 3500;

/** Never behind a proxy. Node compares addresses, gRPC networks, and both the names. */
const THIS_MACHINE = "localhost,127.0.0.1,127.0.0.0/8,::1,[::1]";

let resetProxies = (): void => {};

/**
 * Sets up the outgoing connections of this process. Call it before the first connection. Temporal's client reads the
 * variables itself, in lower case only.
 */
export const configureOutgoing = (): void => {
  net.setDefaultAutoSelectFamilyAttemptTimeout(ADDRESS_TIMEOUT_MS);
  const { env } = process;
  for (const name of ["http_proxy", "https_proxy"]) {
    const value = env[name] || env[name.toUpperCase()];
    Object.assign(env, value ? { [name]: value } : {});
  }
  const exceptions = [env["no_proxy"], env["NO_PROXY"], THIS_MACHINE].filter(Boolean).join(",");
  Object.assign(env, { no_proxy: exceptions, NO_PROXY: exceptions });
  resetProxies();
  resetProxies = env["http_proxy"] || env["https_proxy"] ? http.setGlobalProxyFromEnv() : () => {};
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
