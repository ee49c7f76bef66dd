{{- /* Where the files are mounted. */ -}}
{{- define "impact.secretsFolder" -}}/run/secrets/impact{{- end -}}
{{- define "impact.databaseTlsFolder" -}}/run/secrets/database-tls{{- end -}}
{{- define "impact.temporalTlsFolder" -}}/run/secrets/temporal-tls{{- end -}}

{{- /* The secret that only the migration receives, as JSON. */ -}}
{{- define "impact.migrationSecrets" -}}
{{- pick .Values.secrets "DATABASE_OWNER_URL" | toJson -}}
{{- end -}}

{{- /* The secrets of all Pods, as JSON. */ -}}
{{- define "impact.commonSecrets" -}}
{{- omit .Values.secrets "DATABASE_OWNER_URL" | toJson -}}
{{- end -}}

{{- /* The environment of all Pods, as YAML: what the values say, and what the chart decides. */ -}}
{{- define "impact.environment" -}}
{{- $environment := dict -}}
{{- if .Values.ingress.enabled -}}
{{- $_ := set $environment "TRUSTED_PROXIES" "1" -}}
{{- end -}}
{{- range $name, $value := .Values.settings -}}
{{- /* Helm reads numbers as floating point, which it would print as 1e+06. */ -}}
{{- if kindIs "float64" $value }}{{ $value = int64 $value }}{{ end -}}
{{- $_ := set $environment $name (toString $value) -}}
{{- end -}}
{{- $_ := set $environment "HOST" .Values.listenAddress -}}
{{- $_ := set $environment "METRICS_HOST" .Values.listenAddress -}}
{{- $_ := set $environment "PORT" "8080" -}}
{{- $_ := set $environment "STORE_PORT" "8081" -}}
{{- $_ := set $environment "METRICS_PORT" "9464" -}}
{{- $_ := set $environment "WORKER_METRICS_PORT" "9465" -}}
{{- $_ := set $environment "DRAIN_SECONDS" (toString (int64 .Values.api.drainSeconds)) -}}
{{- $_ := set $environment "PUBLIC_BASE_URL" .Values.publicBaseUrl -}}
{{- range $name, $_ := include "impact.commonSecrets" . | fromJson -}}
{{- $_ := set $environment (printf "%s_FILE" $name) (printf "%s/%s" (include "impact.secretsFolder" $) $name) -}}
{{- end -}}
{{- $folder := include "impact.databaseTlsFolder" . -}}
{{- with .Values.database.tls -}}
{{- if .ca }}{{ $_ := set $environment "PGSSLROOTCERT" (printf "%s/%s" $folder .ca) }}{{ end -}}
{{- if .certificate }}{{ $_ := set $environment "PGSSLCERT" (printf "%s/%s" $folder .certificate) }}{{ end -}}
{{- if .key }}{{ $_ := set $environment "PGSSLKEY" (printf "%s/%s" $folder .key) }}{{ end -}}
{{- end -}}
{{- $_ := set $environment "TEMPORAL_ADDRESS" .Values.temporal.address -}}
{{- $_ := set $environment "TEMPORAL_NAMESPACE" .Values.temporal.namespace -}}
{{- $folder = include "impact.temporalTlsFolder" . -}}
{{- with .Values.temporal.tls -}}
{{- if .enabled }}{{ $_ := set $environment "TEMPORAL_TLS" "true" }}{{ end -}}
{{- if .serverName }}{{ $_ := set $environment "TEMPORAL_TLS_SERVER_NAME" .serverName }}{{ end -}}
{{- if .ca }}{{ $_ := set $environment "TEMPORAL_TLS_SERVER_CA_CERT_PATH" (printf "%s/%s" $folder .ca) }}{{ end -}}
{{- if .certificate }}{{ $_ := set $environment "TEMPORAL_TLS_CLIENT_CERT_PATH" (printf "%s/%s" $folder .certificate) }}{{ end -}}
{{- if .key }}{{ $_ := set $environment "TEMPORAL_TLS_CLIENT_KEY_PATH" (printf "%s/%s" $folder .key) }}{{ end -}}
{{- end -}}
{{- toYaml $environment -}}
{{- end -}}

{{- /* What a process of the service has besides. */ -}}
{{- define "impact.env" -}}
{{- with .Values.temporal.apiKey }}
{{- if .existingSecret }}
- name: TEMPORAL_API_KEY
  valueFrom:
    secretKeyRef:
      name: {{ .existingSecret }}
      key: {{ .key }}
{{- end }}
{{- end }}
{{- with .Values.extraEnvironment }}
{{ toYaml . }}
{{- end }}
{{- end -}}
