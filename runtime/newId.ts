import { v7 } from "uuid";

/** Returns a UUID of version 7. The ids of a process ascend, also within a millisecond and if the clock is set back. */
export const newId = (): string => v7();
