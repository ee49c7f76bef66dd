import ipaddr from "ipaddr.js";
import { LOCALHOST } from "../resolveAddresses.ts";

type Address = ipaddr.IPv4 | ipaddr.IPv6;

/** Where all public IPv6 addresses are. Elsewhere are obsolete forms of IPv4 addresses, such as `::7f00:1`. */
const GLOBAL_UNICAST = "2000::/3";

const isIn = (address: Address, network: string): boolean => {
  const [first, prefixLength] = ipaddr.parseCIDR(network);
  return address.kind() === first.kind() && address.match(first, prefixLength);
};

/**
 * Returns whether an address may be called: it is public, or in one of the networks that the operator allows, such as
 * `10.1.0.0/16`. An IPv4 address that is written as IPv6 counts as the IPv4 address. Addresses of translators, such as
 * NAT64 and 6to4, are not public.
 */
export const isAllowedAddress = (given: string, allowed: readonly string[]): boolean => {
  if (!ipaddr.isValid(given)) {
    return false;
  }
  const address = ipaddr.process(given);
  const isPublic =
    address.range() === "unicast" && (address.kind() === "ipv4" || isIn(address, GLOBAL_UNICAST));
  return isPublic || allowed.some((network) => isIn(address, network));
};

/** Returns whether an address or `localhost` may be called. Other names are resolved and checked at each call. */
export const isAllowedHost = (hostname: string, allowed: readonly string[]): boolean => {
  const address = hostname.replaceAll(/[[\]]/gu, "");
  if (LOCALHOST.test(address)) {
    return isAllowedAddress("127.0.0.1", allowed);
  }
  return ipaddr.isValid(address) ? isAllowedAddress(address, allowed) : true;
};
