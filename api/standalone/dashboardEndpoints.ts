import { z } from "zod";
import { getDashboardSlug } from "../../modules/dashboard/getDashboardSlug.ts";
import { certificateUrlEndpoint } from "../endpoints/certificateEndpoints.ts";
import { keyEndpoint } from "../http/endpoint.ts";
import type { Endpoint } from "../http/endpoint.ts";
import type { StandaloneContext } from "../context.ts";
import { KEY_ERROR } from "./standaloneErrors.ts";

const MISSING_KEY = "missing Authorization header";

const dashboardUrlResponse = z
  .strictObject({
    dashboard_url: z.url().meta({
      description: "Stable for the life of the organization.",
      examples: ["https://impact.example/dashboard/example-organization-k3v9m2qd"],
    }),
    org_id: z.string(),
  })
  .meta({ id: "DashboardUrl" });

export const dashboardEndpoints = (context: StandaloneContext): readonly Endpoint[] => [
  keyEndpoint({
    method: "get",
    path: "/dashboard_url",
    missingKey: MISSING_KEY,
    description: {
      operationId: "readDashboardUrl",
      tag: "dashboard",
      summary: "Read the URL of the organization's public dashboard",
      details:
        "The page needs no key and shows data of production keys only. The same numbers are available as JSON " +
        "(`<dashboard_url>.json`), as a badge (`<dashboard_url>/badge.svg`) and as a card for an iframe " +
        "(`<dashboard_url>/card`).",
      errors: [
        { code: "key_missing", when: "There is no Authorization header.", example: MISSING_KEY },
        { ...KEY_ERROR, when: "The key is invalid." },
      ],
    },
    schemas: { response: dashboardUrlResponse },
    handle: async ({ caller }) => ({
      dashboard_url: `${context.publicBaseUrl()}/dashboard/${await getDashboardSlug(context, caller.accountId)}`,
      org_id: caller.accountId,
    }),
  }),
  certificateUrlEndpoint(context, {
    path: "/certificate_url",
    tag: "dashboard",
    accountType: "organization",
    errors: [
      {
        code: "request_invalid",
        when: "A query parameter is missing, repeated or malformed; the message names it.",
        example: "id: required",
      },
      KEY_ERROR,
    ],
  }),
];
