import type { z } from "zod";
import type { RegistrationFilter } from "../../../domain/registrations/registrations.ts";
import { startOfDay, startOfNextDay } from "../../http/lists/days.ts";
import { attributionOf } from "../attributionFilter.ts";
import type { listQuery } from "./schemas.ts";

/** Converts a list's query parameters; the range includes both days. */
export const listFilter = (query: z.output<typeof listQuery>): RegistrationFilter => {
  const until = query.end_at === undefined ? undefined : startOfNextDay(query.end_at);
  const attribution = attributionOf(query.attribution_key, query.without_attribution);
  return {
    ...(query.id === undefined ? {} : { id: query.id }),
    ...(attribution === undefined ? {} : { attribution }),
    ...(query.created_at === undefined ? {} : { from: startOfDay(query.created_at) }),
    ...(until === undefined ? {} : { until }),
    ...(query.metadata === undefined ? {} : { metadata: query.metadata }),
  };
};
