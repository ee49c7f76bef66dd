import dns from "node:dns";
import { Resolver } from "node:dns/promises";
import { setTimeout as delay } from "node:timers/promises";

export type Resolve = (hostname: string) => Promise<readonly string[]>;

/** RFC 6761: names of this machine, without DNS. */
export const LOCALHOST = /(?:^|\.)localhost\.?$/u;

const TRY_TIMEOUT_MS = 3000;
const TRIES = 2;

/** Some name servers never respond to a query for IPv6 addresses. RFC 8305 waits 50 ms. */
const IPV6_DELAY_MS = 300;

const none = (): string[] => [];

/**
 * Returns the IPv4 addresses of a host from DNS, then its IPv6 addresses if DNS returns them in time. It does not use the
 * threads that `dns.lookup` shares with the rest of the process, so a name server that does not respond delays no other
 * work. It does not read /etc/hosts either.
 */
export const resolveAddresses: Resolve = async (hostname) => {
  if (LOCALHOST.test(hostname)) {
    return ["127.0.0.1", "::1"];
  }
  const resolver = new Resolver({ timeout: TRY_TIMEOUT_MS, tries: TRIES });
  // A named import would keep the servers of the start.
  resolver.setServers(dns.getServers());
  const ipv6 = resolver.resolve6(hostname).catch(none);
  const ipv4 = await resolver.resolve4(hostname).catch(none);
  const others = ipv4.length === 0 ? ipv6 : Promise.race([ipv6, delay(IPV6_DELAY_MS, [])]);
  try {
    return [...ipv4, ...(await others)];
  } finally {
    resolver.cancel();
  }
};
