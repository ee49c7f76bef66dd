import { hash } from "node:crypto";
import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { waitForPermit } from "../../../db/rateLimits.ts";
import { MINUTE_MS } from "../../../runtime/durations.rules.ts";
import { DomainError } from "../../../runtime/errors.rules.ts";
import { CharityProviderError } from "../provider.ts";
import { charityOf } from "./charityFields.ts";
import type { RemoteApi } from "./createRemoteProvider.ts";
import type { CallName } from "./fetchJson.ts";

/*
 * The partner API of Every.org, v0.2; the facts are from github.com/everydotorg/charity-api-docs,
 * docs/endpoints/nonprofits.md. A search returns at most 50 hits, without pages or a total. Rate limits are per API key
 * and minute.
 */

const MAXIMUM_HITS = 50;
const PER_MINUTE: Readonly<Record<CallName, number>> = { details: 100, search: 500 };

/** How much of each limit one account may use, so that the others can always call Every.org, too. */
const SHARE_OF_ACCOUNT = 3 / 4;

const nonprofit = charityOf((fields) => ({
  nonprofitId: fields["primarySlug"],
  name: fields["name"],
  ein: fields["ein"],
  description: fields["descriptionLong"] || fields["description"],
  website: fields["websiteUrl"],
  iconUrl: fields["logoUrl"],
}));

const details = z
  .object({
    data: z.object({ nonprofit: z.looseObject({ isDisbursable: z.boolean().nullish() }) }),
  })
  // Every.org lists charities that it cannot pass donations on to.
  .transform(({ data }): unknown =>
    data.nonprofit.isDisbursable === false ? null : data.nonprofit,
  )
  .pipe(nonprofit.nullable());

/** Returns the last segment of a profile's URL: the slug, which the details endpoint accepts. */
const slugOf = (profileUrl: unknown): string | undefined =>
  URL.parse(String(profileUrl))?.pathname.split("/").findLast(Boolean);

const hit = charityOf(({ profileUrl, name, ein, description, websiteUrl, logoUrl }) => ({
  nonprofitId: slugOf(profileUrl),
  name,
  ein,
  description,
  website: websiteUrl,
  iconUrl: logoUrl,
}));

/**
 * Returns the API for one account.
 * @param db counts the calls of all processes
 */
export const everyOrgApi = (
  apiBase: string,
  { apiKey }: { readonly apiKey: string },
  db: CommonQueryMethods,
  accountId: string,
): RemoteApi => {
  // The hash names the key without storing it.
  const buckets = `everyorg/${hash("sha256", apiKey).slice(0, 16)}`;
  return {
    name: "everyorg",
    detailsRequest: (id) => ({ url: `${apiBase}/nonprofit/${id}`, parameters: { apiKey } }),
    details,
    findsEins: true,
    searchRequest: (term) =>
      term === null
        ? null
        : {
            url: `${apiBase}/search/${encodeURIComponent(term)}`,
            parameters: { take: String(MAXIMUM_HITS), apiKey },
          },
    searchResponse: z
      .object({ nonprofits: z.array(z.unknown()) })
      .transform(({ nonprofits }) => ({ hits: nonprofits, total: null })),
    hit,
    maximumHits: MAXIMUM_HITS,
    termsOf: () => [],
    takePermit: async (call) => {
      const requests = PER_MINUTE[call];
      const share = requests * SHARE_OF_ACCOUNT;
      const waitMs = await waitForPermit(db, `${buckets}/${call}/${accountId}`, {
        requests: share,
        windowMs: MINUTE_MS,
      });
      if (waitMs > 0) {
        throw new DomainError(
          "charity_unconfirmed",
          `too many ${call} requests to the charity provider: an account may use ${share} a minute`,
          { retryAfterSeconds: Math.ceil(waitMs / 1000) },
        );
      }
      if ((await waitForPermit(db, `${buckets}/${call}`, { requests, windowMs: MINUTE_MS })) > 0) {
        throw new CharityProviderError(
          `everyorg: rate limit of ${requests} ${call} requests a minute reached`,
        );
      }
    },
  };
};
