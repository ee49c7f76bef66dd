import type { IServiceMonitor } from "@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/ServiceMonitor";
import type { IPrometheusRule } from "@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/PrometheusRule";
import type { IDeployment } from "kubernetes-models/apps/v1/Deployment";
import type { IHorizontalPodAutoscaler } from "kubernetes-models/autoscaling/v2/HorizontalPodAutoscaler";
import type { IJob } from "kubernetes-models/batch/v1/Job";
import type { IIngress } from "kubernetes-models/networking.k8s.io/v1/Ingress";
import type { INetworkPolicy } from "kubernetes-models/networking.k8s.io/v1/NetworkPolicy";
import type { IPodDisruptionBudget } from "kubernetes-models/policy/v1/PodDisruptionBudget";
import type { IConfigMap } from "kubernetes-models/v1/ConfigMap";
import type { IPod } from "kubernetes-models/v1/Pod";
import type { IService } from "kubernetes-models/v1/Service";
import type { IServiceAccount } from "kubernetes-models/v1/ServiceAccount";

export type Manifest =
  | IConfigMap
  | IDeployment
  | IHorizontalPodAutoscaler
  | IIngress
  | IJob
  | INetworkPolicy
  | IPod
  | IPodDisruptionBudget
  | IPrometheusRule
  | IService
  | IServiceAccount
  | IServiceMonitor;
