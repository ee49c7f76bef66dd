export { donation } from "./donation.ts";
export { perpetualWork } from "./perpetualWork.ts";
export { plantingOrder } from "./plantingOrder.ts";
export { plantingOrderCreation } from "./plantingOrderCreation.ts";
export { reconciliation } from "./reconciliation.ts";
export { refund } from "./refund.ts";
export { retention } from "./retention.ts";
