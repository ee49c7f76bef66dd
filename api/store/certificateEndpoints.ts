import { MAXIMUM_CERTIFIED_RECORDS } from "../../modules/dashboard/certificate.rules.ts";
import { orderId } from "../../modules/stores/customers.rules.ts";
import {
  CERTIFICATE_URL,
  presentCertificateUrl,
  certificateUrlEndpoint,
} from "../endpoints/certificateUrlEndpoint.ts";
import { getOrderCertificateToken } from "../../modules/dashboard/manageCertificates.ts";
import { keyEndpoint } from "../http/endpoint.ts";
import type { Endpoint } from "../http/endpoint.ts";
import { queryObject } from "../http/parseRequest.ts";
import type { StoreAppContext } from "../context.ts";
import { KEY_ERROR, QUERY_ERROR } from "./storeErrors.ts";

const BRAND = "It has the brand of the organization that owns the store.";

export const certificateEndpoints = (context: StoreAppContext): readonly Endpoint[] => [
  certificateUrlEndpoint(context, {
    path: "/app/api/certificate_url",
    tag: "impact",
    details: `${CERTIFICATE_URL.details} ${BRAND}`,
    accountType: "store",
    errors: [QUERY_ERROR, KEY_ERROR],
  }),
  keyEndpoint({
    method: "get",
    path: "/app/api/order_certificate_url",
    description: {
      operationId: "readOrderCertificateUrl",
      tag: "impact",
      summary: "Read the URL of an order's public certificate",
      details:
        `${CERTIFICATE_URL.details} ${BRAND} It has the trees, plastic and donations that the order has when the URL is ` +
        "requested; request it again after records were added to the order. For an order with more than " +
        `${MAXIMUM_CERTIFIED_RECORDS} records, the request is a 400.`,
      errors: [
        QUERY_ERROR,
        KEY_ERROR,
        {
          code: "record_not_found",
          when: "The store has no record of the order in the key's mode.",
          example: "failed to find order",
        },
      ],
    },
    schemas: {
      query: queryObject({
        order_id: orderId().meta({
          // An empty parameter is one that is not given.
          minLength: 1,
          description: "With or without the leading `#`.",
          examples: ["#1001"],
        }),
      }),
      response: CERTIFICATE_URL.response,
    },
    examples: { response: CERTIFICATE_URL.example },
    handle: async ({ caller: { accountId, mode }, query: { order_id: order } }) =>
      presentCertificateUrl(
        context.publicBaseUrl(),
        await getOrderCertificateToken(context, { accountId, mode }, order),
      ),
  }),
];
