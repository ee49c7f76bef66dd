import ipaddr from "ipaddr.js";
import type { Config } from "../../runtime/config/config.ts";
import type { WebhookSettings } from "./webhooks.rules.ts";
import { LOCALHOST } from "../../runtime/resolveAddresses.ts";

export const readWebhookSettings = ({
  WEBHOOK_ALLOW_HTTP,
  WEBHOOK_ALLOWED_NETWORKS,
}: Pick<Config, "WEBHOOK_ALLOW_HTTP" | "WEBHOOK_ALLOWED_NETWORKS">): WebhookSettings => ({
  allowsHttp: WEBHOOK_ALLOW_HTTP === "on",
  allowedNetworks: WEBHOOK_ALLOWED_NETWORKS?.split(",").map((network) => network.trim()) ?? [],
});

type Address = ipaddr.IPv4 | ipaddr.IPv6;

/** Where all public IPv6 addresses are. Elsewhere are obsolete forms of IPv4 addresses, such as `::7f00:1`. */
const GLOBAL_UNICAST = "2000::/3";

/** A public address at which Azure serves its virtual machines their configuration. */
const AZURE_WIRE_SERVER = "168.63.129.16/32";

const isIn = (address: Address, network: string): boolean => {
  const [first, prefixLength] = ipaddr.parseCIDR(network);
  return address.kind() === first.kind() && address.match(first, prefixLength);
};

/**
 * Returns whether an address may be called: it is public, or in one of the networks that the operator allows, such as
 * `10.1.0.0/16`, and in none that the operator excludes, such as `!203.0.113.0/24`. An IPv4 address that is written as IPv6 is
 * treated as the IPv4 address. Addresses of translators, such as NAT64 and 6to4, are not public.
 */
export const isAllowedAddress = (given: string, networks: readonly string[]): boolean => {
  if (!ipaddr.isValid(given)) {
    return false;
  }
  const address = ipaddr.process(given);
  const isPublic =
    address.range() === "unicast" &&
    !isIn(address, AZURE_WIRE_SERVER) &&
    (address.kind() === "ipv4" || isIn(address, GLOBAL_UNICAST));
  const excluded = networks.filter((network) => network.startsWith("!"));
  const allowed = networks.filter((network) => !network.startsWith("!"));
  return (
    (isPublic || allowed.some((network) => isIn(address, network))) &&
    !excluded.some((network) => isIn(address, network.slice(1)))
  );
};

/** Returns whether an address or `localhost` may be called. Other names are resolved and checked at each call. */
export const isAllowedHost = (hostname: string, allowed: readonly string[]): boolean => {
  const address = hostname.replaceAll(/[[\]]/gu, "");
  if (LOCALHOST.test(address)) {
    return isAllowedAddress("127.0.0.1", allowed);
  }
  return ipaddr.isValid(address) ? isAllowedAddress(address, allowed) : true;
};
