import type { AccountType } from "../../modules/records/owner.rules.ts";
import { getCertificateToken } from "../../modules/dashboard/getCertificateToken.ts";
import { keyEndpoint } from "../http/endpoint.ts";
import type { Endpoint, ErrorResponse } from "../http/endpoint.ts";
import type { HttpContext } from "../context.ts";
import { CERTIFICATE_URL, certificateQuery, presentCertificateUrl } from "./certificateSchemas.ts";

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
