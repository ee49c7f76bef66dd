import type { AccountType } from "../../modules/records/owner.rules.ts";
import { getCertificateToken } from "../../modules/dashboard/manageCertificates.ts";
import { keyEndpoint } from "../http/endpoint.ts";
import type { Endpoint, ErrorResponse } from "../http/endpoint.ts";
import type { HttpContext } from "../context.ts";
import { z } from "zod";
import { CERTIFIED_KINDS } from "../../modules/dashboard/certificate.rules.ts";
import { recordId } from "../../modules/records/fields.rules.ts";
import { oneOf } from "../../runtime/describeIssues.rules.ts";
import { queryObject } from "../http/parseRequest.ts";

/** The parameters that select a record. */
const certificateQuery = queryObject({
  id: recordId().meta({
    description: "The id of a registration or a donation.",
    examples: ["0198c5de-7c1f-7b52-a3a1-3f1f9a0c9e11"],
  }),
  kind: oneOf(CERTIFIED_KINDS).optional().meta({
    description: "Selects one of several records that were imported with the same id.",
  }),
});

const certificateUrlResponse = z
  .strictObject({
    certificate_url: z.url().meta({
      description: "Stable until the operator revokes it; the next request returns another one.",
    }),
  })
  .meta({ id: "CertificateUrl" });

/** Returns the URL of the certificate with a token. */
export const presentCertificateUrl = (
  baseUrl: string,
  token: string,
): z.output<typeof certificateUrlResponse> => ({
  certificate_url: `${baseUrl}/certificate/${token}`,
});

/** What all endpoints that return the URL of a certificate have in common. */
export const CERTIFICATE_URL = {
  details:
    "The page needs no key. It distinguishes what is registered from what is proven, and says if it was refunded. It " +
    "names no customer and no order. Its URL cannot be guessed, and stays the same until the operator revokes it. The " +
    "same data are available as JSON (`<certificate_url>.json`).",
  response: certificateUrlResponse,
  example: presentCertificateUrl("https://impact.example", "9f86d081884c7d659a2feaa0c55ad015"),
} as const;

/** The endpoint of an interface for the URLs of records' certificates. */
export const certificateUrlEndpoint = (
  context: HttpContext,
  {
    path,
    tag,
    details,
    accountType,
    errors,
  }: {
    readonly path: string;
    readonly tag: string;
    readonly details: string;
    readonly accountType: AccountType;
    /** The errors of the key and the query. */
    readonly errors: readonly ErrorResponse[];
  },
): Endpoint =>
  keyEndpoint({
    method: "get",
    path,
    description: {
      operationId: "readCertificateUrl",
      tag,
      summary: "Read the URL of a record's public certificate",
      details,
      errors: [
        ...errors,
        {
          code: "record_not_found",
          when: `The ${accountType} has no such record in the key's mode.`,
          example: "failed to find registration or donation",
        },
      ],
    },
    schemas: { query: certificateQuery, response: CERTIFICATE_URL.response },
    examples: { response: CERTIFICATE_URL.example },
    handle: async ({ caller: { accountId, mode }, query: { id, kind } }) =>
      presentCertificateUrl(
        context.publicBaseUrl(),
        await getCertificateToken(context, { accountId, mode }, id, kind ?? null),
      ),
  });
