{{- /* What the Pods have in common. Each is called with a dict of `root` and what differs. */ -}}

{{- define "impact.podSettings" -}}
automountServiceAccountToken: false
# The variables that Kubernetes adds for Services could be taken for settings.
enableServiceLinks: false
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 1000
  runAsGroup: 1000
  # Owns the mounted secrets, which only it can read.
  fsGroup: 1000
  seccompProfile:
    type: RuntimeDefault
{{- end -}}

{{- define "impact.containerSettings" -}}
image: {{ include "impact.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end -}}

{{- define "impact.volumeMounts" -}}
volumeMounts:
  - name: tmp
    mountPath: /tmp
  - name: secrets
    mountPath: {{ include "impact.secretsFolder" . }}
    readOnly: true
  {{- if .Values.database.tls.existingSecret }}
  - name: database-tls
    mountPath: {{ include "impact.databaseTlsFolder" . }}
    readOnly: true
  {{- end }}
  {{- if .Values.temporal.tls.existingSecret }}
  - name: temporal-tls
    mountPath: {{ include "impact.temporalTlsFolder" . }}
    readOnly: true
  {{- end }}
{{- end -}}

{{- /* `root`, and `secrets`: which of the values' secrets are mounted. */ -}}
{{- define "impact.volumes" -}}
volumes:
  - name: tmp
    emptyDir:
      sizeLimit: 256Mi
  - name: secrets
    projected:
      defaultMode: 0440
      sources:
        {{- range $name, $source := .secrets }}
        - secret:
            name: {{ $source.existingSecret }}
            items:
              - key: {{ default $name $source.key }}
                path: {{ $name }}
        {{- end }}
  {{- with .root.Values.database.tls.existingSecret }}
  - name: database-tls
    secret:
      secretName: {{ . }}
      defaultMode: 0440
  {{- end }}
  {{- with .root.Values.temporal.tls.existingSecret }}
  - name: temporal-tls
    secret:
      secretName: {{ . }}
      defaultMode: 0440
  {{- end }}
{{- end -}}

{{- /* `root`, `component`, and `values`: those of the component. */ -}}
{{- define "impact.placement" -}}
{{- with .values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- if .values.topologySpread.enabled }}
topologySpreadConstraints:
  {{- range .values.topologySpread.topologyKeys }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: {{ $.values.topologySpread.whenUnsatisfiable }}
    labelSelector:
      matchLabels:
        {{- include "impact.selector" $.root | nindent 8 }}
        app.kubernetes.io/component: {{ $.component }}
    matchLabelKeys: [pod-template-hash]
  {{- end }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* The probes of a process, at the named port that serves /healthz and /readyz. Both answer at once, from memory. */ -}}
{{- define "impact.probes" -}}
startupProbe:
  httpGet: { path: /healthz, port: {{ . }} }
  periodSeconds: 2
  timeoutSeconds: 2
  failureThreshold: 60
# A process that is busy answers late; one that does not answer for a minute is started again.
livenessProbe:
  httpGet: { path: /healthz, port: {{ . }} }
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: { path: /readyz, port: {{ . }} }
  periodSeconds: 2
  timeoutSeconds: 2
  failureThreshold: 2
{{- end -}}
