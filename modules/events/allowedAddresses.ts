import ipaddr from "ipaddr.js";
import type { Config } from "../../runtime/config/config.ts";
import { MAXIMUM_URL_LENGTH } from "./webhooks.rules.ts";
import type { WebhookSettings } from "./webhooks.rules.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
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

/**
 * Returns the URL of an endpoint in its normal form. Only what needs no look-up is checked: a host name can change, so each
 * delivery checks the address that it calls.
 * @throws DomainError request_invalid
 */
export const requireUsableUrl = (
  given: string,
  { allowsHttp, allowedNetworks }: WebhookSettings,
): string => {
  const url = URL.parse(given);
  // The normal form is stored. Escaped characters make it longer than what was given.
  if (url === null || url.href.length > MAXIMUM_URL_LENGTH) {
    throw invalidRequest(`url: must be a URL of at most ${MAXIMUM_URL_LENGTH} characters`);
  }
  if (url.protocol !== "https:" && !(allowsHttp && url.protocol === "http:")) {
    throw invalidRequest(
      allowsHttp ? "url: must begin with https:// or http://" : "url: must begin with https://",
    );
  }
  if (url.username !== "" || url.password !== "") {
    throw invalidRequest(
      "url: must not have a user name or a password; verify the signature instead",
    );
  }
  if (url.hash !== "") {
    throw invalidRequest("url: must not have a fragment");
  }
  const host = url.hostname.replaceAll(/[[\]]/gu, "");
  const address = LOCALHOST.test(host) ? "127.0.0.1" : host;
  if (ipaddr.isValid(address) && !isAllowedAddress(address, allowedNetworks)) {
    throw invalidRequest(
      "url: the host must have a public address; to receive events on your own machine, use `impact webhook listen`",
    );
  }
  return url.href;
};
