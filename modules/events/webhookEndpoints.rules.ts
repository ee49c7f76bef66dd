import type { AccountType } from "../records/owner.rules.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import type { DomainError } from "../../runtime/errors.rules.ts";
import { WEBHOOK_TYPES_OF } from "./webhookPayloads.rules.ts";

/** How many endpoints an account can have in a mode. */
export const MAXIMUM_ENDPOINTS = 16;

/** How many secrets of an endpoint can sign at the same time. */
export const MAXIMUM_SECRETS = 5;

/** How long a replaced secret still signs. */
export const OLD_SECRET_HOURS = 24;

/** How far back undelivered events can be recovered. */
export const RECOVERY_DAYS = 14;

/** An endpoint is disabled after this many days of failed attempts only. */
export const FAILING_DAYS = 5;

/** Why an endpoint is disabled: by request, because its server answered 410, or after days of nothing but failures. */
export const DISABLED_REASONS = ["requested", "gone", "failing"] as const;
export type DisabledReason = (typeof DISABLED_REASONS)[number];

/** Where an operator lets deliveries be sent. */
export type WebhookSettings = {
  readonly allowsHttp: boolean;
  /** Networks that may be called although they are not public, such as `10.1.0.0/16`. */
  readonly allowedNetworks: readonly string[];
};

export const MAXIMUM_URL_LENGTH = 2048;

const invalid = (problem: string): DomainError => invalidRequest(problem);

/**
 * Checks the URL of an endpoint and returns it in its normal form.
 * @throws DomainError request_invalid
 */
export const parseEndpointUrl = (
  given: string,
  { allowsHttp }: { readonly allowsHttp: boolean },
): string => {
  const url = URL.parse(given);
  // The normal form is stored, in an index. Escaped characters make it longer than what was given.
  if (url === null || url.href.length > MAXIMUM_URL_LENGTH) {
    throw invalid(`url: must be a URL of at most ${MAXIMUM_URL_LENGTH} characters`);
  }
  if (url.protocol !== "https:" && !(allowsHttp && url.protocol === "http:")) {
    throw invalid(
      allowsHttp ? "url: must begin with https:// or http://" : "url: must begin with https://",
    );
  }
  if (url.username !== "" || url.password !== "") {
    throw invalid("url: must not have a user name or a password; verify the signature instead");
  }
  if (url.hash !== "") {
    throw invalid("url: must not have a fragment");
  }
  return url.href;
};

/**
 * Checks the types of an endpoint.
 * @param types null for all
 * @throws DomainError request_invalid if an account of this type has no such events
 */
export const requireTypesOf = (owner: AccountType, types: readonly string[] | null): void => {
  const own: readonly string[] = WEBHOOK_TYPES_OF[owner];
  const unknown = types?.find((type) => !own.includes(type));
  if (unknown !== undefined) {
    const noun = owner === "store" ? "a store" : "an organization";
    throw invalid(`types: ${noun} has no events ${unknown}, only ${own.join(", ")}`);
  }
};

const SECRET_PREFIX = "whsec_";

/** Returns a secret as receivers configure it. */
export const formatSecret = (secret: Uint8Array): string =>
  `${SECRET_PREFIX}${btoa(String.fromCharCode(...secret))}`;
