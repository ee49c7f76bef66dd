/** Whether a host, as URLs write it, is this machine. */
export const isLoopback = (host: string): boolean =>
  /^(?:localhost|127(?:\.\d+){3}|\[?::1\]?)$/u.test(host);

/** Whether requests to a URL may have a key: they are encrypted, or stay on this machine. */
export const mayReceiveKeys = (url: string): boolean => {
  const { protocol, hostname } = new URL(url);
  return protocol === "https:" || isLoopback(hostname);
};

/** Returns a URL that a browser can open if the server listens on every interface (`0.0.0.0` or `::`). */
export const browsableUrl = (url: string): string =>
  url.replace(/^http:\/\/(?:0\.0\.0\.0|::|\[::\])(?=:\d+$)/u, "http://localhost");
