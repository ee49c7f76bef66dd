import { z } from "zod";
import { getDashboardSlug } from "../../modules/dashboard/getDashboardSlug.ts";
import { certificateUrlEndpoint } from "../endpoints/certificateEndpoints.ts";
import { keyEndpoint } from "../http/endpoint.ts";
import type { AppContext } from "../context.ts";
import { responseObject } from "../http/parseRequest.ts";

const dashboardUrlResponse = responseObject("DashboardUrl", {
  dashboard_url: z.url().meta({
    description: "Stable for the life of the organization.",
    examples: ["https://impact.example/dashboard/example-organization-k3v9m2qd"],
  }),
  org_id: z.string(),
});

export const dashboardEndpoints = (context: AppContext) => [
  keyEndpoint("get", "/dashboard_url", {
    missingKey: "missing Authorization header",
    operationId: "readDashboardUrl",
    tag: "dashboard",
    summary: "Read the URL of the organization's public dashboard",
    details:
      "The page needs no key and shows data of production keys only. The same numbers are available as JSON " +
      "(`<dashboard_url>.json`), as a badge (`<dashboard_url>/badge.svg`) and as a card for an iframe " +
      "(`<dashboard_url>/card`).",
    errors: [["key_invalid", "The key is invalid."]],
    schemas: { response: dashboardUrlResponse },
    handle: async ({ caller }) => ({
      dashboard_url: `${context.publicBaseUrl()}/dashboard/${await getDashboardSlug(context, caller.accountId)}`,
      org_id: caller.accountId,
    }),
  }),
  certificateUrlEndpoint(context, "/certificate_url", {
    tag: "dashboard",
    accountType: "organization",
  }),
];
