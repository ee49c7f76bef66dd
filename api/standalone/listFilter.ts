import type { z } from "zod";
import type { RegistrationFilter } from "../../modules/registrations/registrations.rules.ts";
import { rangeOfDays } from "../http/listPages.ts";
import { attributionOf } from "./clientFields.ts";
import type { listQuery } from "./registrationSchemas.ts";

/** Converts a list's query parameters. */
export const listFilter = (query: z.output<typeof listQuery>): RegistrationFilter => {
  const attribution = attributionOf(query.attribution_key, query.without_attribution);
  return {
    ...(query.id === undefined ? {} : { id: query.id }),
    ...(attribution === undefined ? {} : { attribution }),
    ...rangeOfDays(query.created_at, query.end_at),
    ...(query.metadata === undefined ? {} : { metadata: query.metadata }),
  };
};
