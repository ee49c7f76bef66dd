import type { IncomingMessage } from "node:http";

/** Longer than any IP address; what a client invents is not logged at length. */
const MAXIMUM_LENGTH = 45;
const MAXIMUM_HEADER = 2000;

/**
 * Returns the address of a request's client. Each trusted proxy appends the address that it saw to `X-Forwarded-For`; what
 * is further left is the client's own claim.
 * @param trustedProxies how many proxies of our own a request has passed; with 0 the header is ignored
 */
export const clientAddress = (
  { headers, socket }: Pick<IncomingMessage, "headers" | "socket">,
  trustedProxies: number,
): string | undefined => {
  const header = headers["x-forwarded-for"];
  if (trustedProxies === 0 || typeof header !== "string") {
    return socket.remoteAddress;
  }
  const forwarded = header.slice(-MAXIMUM_HEADER).split(",");
  const address = (forwarded.at(-trustedProxies) ?? "").trim();
  return address === "" ? socket.remoteAddress : address.slice(0, MAXIMUM_LENGTH);
};
