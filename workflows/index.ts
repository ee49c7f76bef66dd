export { donation } from "./donation.ts";
export { perpetualWork } from "./perpetualWork.ts";
export { plantingOrder, plantingOrderCreation } from "./planting.ts";
export { reconciliation } from "./reconciliation.ts";
export { refund } from "./refund.ts";
export { retention } from "./retention.ts";
