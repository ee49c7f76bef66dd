import { z } from "zod";
import { takePermit } from "../../../db/rateLimits.ts";
import { MINUTE_MS } from "../../../runtime/durations.rules.ts";
import { DomainError } from "../../../runtime/errors.rules.ts";
import { charityOf } from "./charityFields.ts";
import type { CallName, OpenRemoteApi } from "./createRemoteProvider.ts";

/*
 * The partner API of Every.org, v0.2; the facts are from github.com/everydotorg/charity-api-docs,
 * docs/endpoints/nonprofits.md. A search returns at most 50 hits, without pages or a total. An API key may request 100
 * details and 500 searches a minute.
 */

const MAXIMUM_HITS = 50;
/** Three quarters of the limits, so that no account keeps the others from calling Every.org. */
const PER_MINUTE_OF_ACCOUNT: Readonly<Record<CallName, number>> = { details: 75, search: 375 };

/** Returns the last segment of a profile's URL: the slug, which the details endpoint accepts. */
const slugOf = (profileUrl: unknown): string | undefined =>
  URL.parse(String(profileUrl))?.pathname.split("/").findLast(Boolean);

const nonprofit = charityOf((fields) => ({
  // A hit has no other id.
  nonprofitId: fields["primarySlug"] ?? slugOf(fields["profileUrl"]),
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

export const everyOrgApi: OpenRemoteApi = ({ url, keys: [apiKey = ""], db, accountId }) => ({
  name: "everyorg",
  detailsRequest: (id) => ({ url: `${url}/nonprofit/${id}`, parameters: { apiKey } }),
  details,
  searchRequest: (term) =>
    term === null
      ? null
      : {
          url: `${url}/search/${encodeURIComponent(term)}`,
          parameters: { take: String(MAXIMUM_HITS), apiKey },
        },
  searchResponse: z
    .object({ nonprofits: z.array(z.unknown()) })
    .transform(({ nonprofits }) => ({ hits: nonprofits, total: null })),
  hit: nonprofit,
  maximumHits: MAXIMUM_HITS,
  takePermit: async (call) => {
    const requests = PER_MINUTE_OF_ACCOUNT[call];
    const bucket = `everyorg/${call}/${accountId}`;
    if (!(await takePermit(db, bucket, { requests, windowMs: MINUTE_MS }))) {
      throw new DomainError(
        "charity_unconfirmed",
        `too many ${call} requests to the charity provider: an account may use ${requests} a minute`,
      );
    }
  },
});
