import type { Owner } from "../../records/owner.rules.ts";
import type { ProcessorName } from "../usage.rules.ts";
import { minuteOf } from "../usage.rules.ts";

/** What the comparison of a live event in doubt depends on. */
type EventInDoubt = {
  readonly id: bigint;
  readonly processor: ProcessorName;
  readonly customerId: string | null;
  readonly accountId: string;
  readonly kind: Owner["kind"];
  readonly second: number;
  readonly quantity: number;
};

/** The events in doubt of one customer and kind in one minute, usage before refunds. The processor has one sum of them. */
export type MinuteInDoubt<Event> = readonly [Event, ...Event[]];

/** Orders usage before refunds, and the events of a stream in the order of their sealings. */
const inComparisonOrder = (a: EventInDoubt, b: EventInDoubt): number =>
  Math.sign(b.quantity) - Math.sign(a.quantity) ||
  a.accountId.localeCompare(b.accountId) ||
  a.kind.localeCompare(b.kind) ||
  a.second - b.second ||
  Number(a.id - b.id);

/** Groups the events that the processor sums together. */
export const groupByMinute = <Event extends EventInDoubt>(
  events: readonly Event[],
): readonly MinuteInDoubt<Event>[] => {
  const minutes = new Map<string, [Event, ...Event[]]>();
  for (const event of events.toSorted(inComparisonOrder)) {
    const { processor, customerId, accountId, kind, second } = event;
    const key = [processor, customerId ?? accountId, kind, minuteOf(second).start].join("/");
    const minute = minutes.get(key);
    if (minute) {
      minute.push(event);
    } else {
      minutes.set(key, [event]);
    }
  }
  return [...minutes.values()];
};
