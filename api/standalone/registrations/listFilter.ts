import type { z } from "zod";
import type { RegistrationFilter } from "../../../domain/registrations.ts";
import type { listQuery } from "./schemas.ts";

const DAY_MS = 86_400_000;

const startOfDay = (date: string): Date => new Date(`${date}T00:00:00.000Z`);

/** The instant after a day, undefined after the last day that can be written: nothing is later. */
const endOfDay = (date: string): Date | undefined =>
  date === "9999-12-31" ? undefined : new Date(startOfDay(date).getTime() + DAY_MS);

/** What a list's query parameters ask for; both days belong to the range. */
export const listFilter = (query: z.output<typeof listQuery>): RegistrationFilter => {
  const until = query.end_at === undefined ? undefined : endOfDay(query.end_at);
  return {
    ...(query.id === undefined ? {} : { id: query.id }),
    ...(query.attribution_key === undefined ? {} : { attribution: query.attribution_key }),
    ...(query.created_at === undefined ? {} : { from: startOfDay(query.created_at) }),
    ...(until === undefined ? {} : { until }),
    ...(query.metadata === undefined ? {} : { metadata: query.metadata }),
  };
};
