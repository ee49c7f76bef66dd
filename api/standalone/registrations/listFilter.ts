import type { z } from "zod";
import type { RegistrationFilter } from "../../../domain/registrations/registrations.ts";
import { startOfDay, startOfNextDay } from "../../http/days.ts";
import type { listQuery } from "./schemas.ts";

/** Converts a list's query parameters; the range includes both days. */
export const listFilter = (query: z.output<typeof listQuery>): RegistrationFilter => {
  const until = query.end_at === undefined ? undefined : startOfNextDay(query.end_at);
  return {
    ...(query.id === undefined ? {} : { id: query.id }),
    ...(query.attribution_key === undefined ? {} : { attribution: query.attribution_key }),
    ...(query.created_at === undefined ? {} : { from: startOfDay(query.created_at) }),
    ...(until === undefined ? {} : { until }),
    ...(query.metadata === undefined ? {} : { metadata: query.metadata }),
  };
};
