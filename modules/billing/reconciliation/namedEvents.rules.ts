import { counted } from "../../../runtime/counted.rules.ts";

/** The most events that a message names. */
const MAXIMUM_NAMED = 20;

/** Returns meter events for a message, such as "meter events 17, 21". */
export const namedEvents = (ids: readonly string[]): string => {
  const noun = ids.length === 1 ? "meter event" : "meter events";
  const others = ids.length - MAXIMUM_NAMED;
  const rest = others > 0 ? `, and ${counted(others, "other")}` : "";
  return `${noun} ${ids.slice(0, MAXIMUM_NAMED).join(", ")}${rest}`;
};
