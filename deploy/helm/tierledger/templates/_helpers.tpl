{{- define "tierledger.name" -}}
{{- /* KubeRay adds to the name; 40 characters leave room for it. */ -}}
{{- $name := .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $name) -}}
{{- fail (printf "expected a release whose name begins with a letter and has letters, digits and dashes, got %s" .Release.Name) -}}
{{- end -}}
{{- $name -}}
{{- end -}}

{{- define "tierledger.selector" -}}
app.kubernetes.io/name: tierledger
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "tierledger.labels" -}}
{{ include "tierledger.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- define "tierledger.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- define "tierledger.hosts" -}}
{{ .Values.hosts | default (add 1 .Values.workers.replicas) }}
{{- end -}}

{{- /* What cannot work is refused here, and not by a pod that does not start. */ -}}
{{- define "tierledger.check" -}}
{{- range $name, $value := dict "cluster" .Values.cluster "store.url" .Values.store.url "ray.tokenSecret" .Values.ray.tokenSecret -}}
{{- if not $value -}}{{- fail (printf "expected a value for %s" $name) -}}{{- end -}}
{{- end -}}
{{- $doors := .Values.doors -}}
{{- if not (or $doors.tlsSecret $doors.allowPlaintext) -}}
{{- fail "expected doors.tlsSecret, or doors.allowPlaintext: true" -}}
{{- end -}}
{{- if not (or $doors.tokensSecret $doors.clientCertificates $doors.allowAnonymous) -}}
{{- fail "expected doors.tokensSecret or doors.clientCertificates, or doors.allowAnonymous: true" -}}
{{- end -}}
{{- if and $doors.clientCertificates (not $doors.tlsSecret) -}}
{{- fail "doors.clientCertificates: expected doors.tlsSecret, too" -}}
{{- end -}}
{{- if and (hasPrefix "sqlite:" .Values.store.url) (or (not .Values.store.claim) .Values.workers.replicas) -}}
{{- fail "a store that is a file: expected store.claim, and workers.replicas: 0, since the file is on one node" -}}
{{- end -}}
{{- if and .Values.console.enabled (not (and $doors.tlsSecret $doors.tokensSecret)) -}}
{{- fail "console.enabled: expected doors.tlsSecret and doors.tokensSecret" -}}
{{- end -}}
{{- end -}}

{{- define "tierledger.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "tierledger.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- /* Of each container: hosts and coordinator may run on any node. */ -}}
{{- define "tierledger.env" -}}
- name: TIERLEDGER_STORE
  value: {{ .Values.store.url | quote }}
- name: TIERLEDGER_CLUSTER
  value: {{ .Values.cluster | quote }}
{{- if .Values.store.passwordSecret }}
- name: PGPASSWORD
  valueFrom: {secretKeyRef: {name: {{ .Values.store.passwordSecret }}, key: {{ .Values.store.passwordKey }}}}
{{- end }}
{{- with .Values.store.bucket }}
{{- if .secret }}
{{- $secret := .secret }}
{{- range list "AWS_ACCESS_KEY_ID" "AWS_SECRET_ACCESS_KEY" }}
- name: {{ . }}
  valueFrom: {secretKeyRef: {name: {{ $secret }}, key: {{ . }}}}
{{- end }}
{{- end }}
{{- if .region }}
- name: AWS_REGION
  value: {{ .region | quote }}
{{- end }}
{{- if .endpoint }}
- name: AWS_ENDPOINT
  value: {{ .endpoint | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "tierledger.rayEnv" -}}
{{ include "tierledger.env" . }}
- name: RAY_AUTH_MODE
  value: token
- name: RAY_AUTH_TOKEN
  valueFrom: {secretKeyRef: {name: {{ .Values.ray.tokenSecret }}, key: token}}
# As a cluster that `serve` starts itself has them (docs/settings.md).
- name: RAY_USAGE_STATS_ENABLED
  value: "0"
- name: RAY_worker_niceness
  value: "0"
- name: RAY_task_events_report_interval_ms
  value: "0"
- name: POD_IP
  valueFrom: {fieldRef: {fieldPath: status.podIP}}
{{- end -}}

{{- /* For commands that ask doors: `root`, and `token`, the file of theirs among the tokens. */ -}}
{{- define "tierledger.commandEnv" -}}
{{- $doors := .root.Values.doors -}}
{{- if $doors.tlsSecret }}
- name: TIERLEDGER_CA
  value: /etc/tierledger/tls/ca.crt
{{- end }}
{{- if $doors.clientCertificates }}
- name: TIERLEDGER_CERTIFICATE
  value: /etc/tierledger/tls/tls.crt
- name: TIERLEDGER_KEY
  value: /etc/tierledger/tls/tls.key
{{- end }}
{{- if $doors.tokensSecret }}
- name: TIERLEDGER_TOKEN
  value: /etc/tierledger/tokens/{{ .token }}
{{- end }}
{{- end -}}

{{- define "tierledger.mounts" -}}
- {name: tmp, mountPath: /tmp}
- {name: home, mountPath: /var/lib/tierledger}
{{- if .Values.doors.tlsSecret }}
- {name: tls, mountPath: /etc/tierledger/tls, readOnly: true}
{{- end }}
{{- if .Values.doors.tokensSecret }}
- {name: tokens, mountPath: /etc/tierledger/tokens, readOnly: true}
{{- end }}
{{- if .Values.kafka.configSecret }}
- {name: kafka, mountPath: /etc/tierledger/kafka, readOnly: true}
{{- end }}
{{- end -}}

{{- /* `home` is made by who includes it. Whole folders, not `subPath`: renewed secrets arrive. */ -}}
{{- define "tierledger.volumes" -}}
- {name: tmp, emptyDir: {}}
{{- if .Values.doors.tlsSecret }}
- {name: tls, secret: {secretName: {{ .Values.doors.tlsSecret }}, defaultMode: 0440}}
{{- end }}
{{- if .Values.doors.tokensSecret }}
- {name: tokens, secret: {secretName: {{ .Values.doors.tokensSecret }}, defaultMode: 0440}}
{{- end }}
{{- if .Values.kafka.configSecret }}
- {name: kafka, secret: {secretName: {{ .Values.kafka.configSecret }}, defaultMode: 0440}}
{{- end }}
{{- end -}}

{{- /* Ray's own answer, by gRPC: of the control store on the head, of the raylet elsewhere. */ -}}
{{- define "tierledger.rayProbes" -}}
startupProbe:
  grpc: {port: {{ . }}}
  periodSeconds: 2
  timeoutSeconds: 5
  failureThreshold: 60
readinessProbe:
  grpc: {port: {{ . }}}
  periodSeconds: 5
  timeoutSeconds: 5
livenessProbe:
  grpc: {port: {{ . }}}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
{{- end -}}

{{- define "tierledger.apart" -}}
podAntiAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      podAffinityTerm:
        topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            ray.io/cluster: {{ include "tierledger.name" . }}
{{- end -}}

{{- define "tierledger.serveArgs" -}}
{{- $doors := .Values.doors -}}
- --address=$(POD_IP):6379
- --nodes={{ add 1 .Values.workers.replicas }}
- --hosts={{ include "tierledger.hosts" . }}
- --listen=0.0.0.0:{{ $doors.port }}
- --advertise={node}.{{ include "tierledger.name" . }}-doors.{{ .Release.Namespace }}.svc
- --metrics-host=$(POD_IP)
- --metrics-port={{ .Values.metrics.port }}
- --metrics-partitions={{ .Values.metrics.partitions }}
{{- if .Values.kafka.brokers }}
- --kafka={{ .Values.kafka.brokers }}
{{- if .Values.kafka.configSecret }}
- --kafka-config=/etc/tierledger/kafka/client.properties
{{- end }}
{{- end }}
{{- if $doors.tlsSecret }}
- --tls-cert=/etc/tierledger/tls/tls.crt
- --tls-key=/etc/tierledger/tls/tls.key
- --tls-ca=/etc/tierledger/tls/ca.crt
{{- if $doors.clientCertificates }}
- --tls-client-ca=/etc/tierledger/tls/ca.crt
{{- end }}
{{- end }}
{{- if $doors.tokensSecret }}
- --tokens=/etc/tierledger/tokens/tokens
- --host-token=/etc/tierledger/tokens/host.token
{{- end }}
{{- if $doors.allowPlaintext }}
- --allow-plaintext
{{- end }}
{{- if $doors.allowAnonymous }}
- --allow-anonymous
{{- end }}
{{- with .Values.extraArgs }}
{{ toYaml . }}
{{- end }}
{{- end -}}
