{{- /* Contradictions between values, in words. The schema rejects unknown values and those of the wrong type. */ -}}
{{- define "impact.checks" -}}
{{- $_ := required "image.repository is required: where you pushed the image, such as registry.example.org/impact-tracking-service" .Values.image.repository -}}
{{- $_ := required "publicBaseUrl is required: the public URL of the standalone interface, such as https://impact.example.org" .Values.publicBaseUrl -}}
{{- $_ := required "temporal.address is required: host:port of Temporal's frontend" .Values.temporal.address -}}
{{- if not (hasKey .Values.secrets "DATABASE_URL") -}}
{{- fail "secrets.DATABASE_URL is required: a Secret with the URL of the database, such as --set secrets.DATABASE_URL.existingSecret=impact-database" -}}
{{- end -}}
{{- if not .Values.migration.enabled -}}
{{- range $name, $_ := include "impact.migrationSecrets" . | fromJson -}}
{{- fail (printf "secrets.%s is for the migration, but migration.enabled is false: remove the secret or enable the migration" $name) -}}
{{- end -}}
{{- end -}}
{{- range $component, $values := dict "api" .Values.api "worker" .Values.worker -}}
{{- with $values.autoscaling -}}
{{- if gt (int64 .minReplicas) (int64 .maxReplicas) -}}
{{- fail (printf "%s.autoscaling: minReplicas (%d) must not exceed maxReplicas (%d)" $component (int64 .minReplicas) (int64 .maxReplicas)) -}}
{{- end -}}
{{- if and .enabled (not (dig "requests" "cpu" "" $values.resources)) -}}
{{- fail (printf "%s.autoscaling needs %s.resources.requests.cpu, because it measures CPU use relative to it" $component $component) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $name, $tls := dict "database" .Values.database.tls "temporal" .Values.temporal.tls -}}
{{- if ne (empty $tls.certificate) (empty $tls.key) -}}
{{- fail (printf "%s.tls: set certificate and key together" $name) -}}
{{- end -}}
{{- if ne (empty $tls.existingSecret) (and (empty $tls.ca) (empty $tls.certificate)) -}}
{{- fail (printf "%s.tls: existingSecret names the Secret in which ca, certificate and key are keys; set neither or both" $name) -}}
{{- end -}}
{{- end -}}
{{- if and (not .Values.temporal.tls.enabled) (or .Values.temporal.tls.serverName .Values.temporal.tls.existingSecret) -}}
{{- fail "temporal.tls has values, but temporal.tls.enabled is false" -}}
{{- end -}}
{{- with .Values.ingress -}}
{{- if and .enabled (not .tlsSecret) -}}
{{- fail "ingress.tlsSecret is required: requests carry API keys, which must be encrypted" -}}
{{- end -}}
{{- if and .enabled (not (or .standaloneHost .storeHost)) -}}
{{- fail "ingress needs standaloneHost, storeHost or both" -}}
{{- end -}}
{{- end -}}
{{- if and .Values.metrics.serviceMonitor.enabled .Values.networkPolicy.enabled (not .Values.networkPolicy.monitoring) -}}
{{- fail "metrics.serviceMonitor is enabled, but the NetworkPolicy admits no client to the metrics: list Prometheus under networkPolicy.monitoring" -}}
{{- end -}}
{{- end -}}
