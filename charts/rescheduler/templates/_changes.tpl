{{- /* The Deployment of manifests/base with what the values say. */ -}}
{{- define "rescheduler.deployment" -}}
{{- $values := .values -}}
{{- $pod := .object.spec.template.spec -}}
{{- $container := first $pod.containers -}}
{{- $_ := set $container "image" (printf "%s:%s" $values.image.repository $values.image.tag) -}}
{{- if $values.image.pullPolicy }}{{ $_ := set $container "imagePullPolicy" $values.image.pullPolicy }}{{ end -}}
{{- if $values.resources }}{{ $_ := set $container "resources" $values.resources }}{{ end -}}
{{- if $values.dryRun }}{{ $_ := set $container "args" (append $container.args "--dry-run") }}{{ end -}}
{{- if or $values.webhook $values.guard -}}
{{- $_ := set $container "ports" (append $container.ports (dict "name" "webhook" "containerPort" 9443)) -}}
{{- $_ := set $container "lifecycle" (dict "preStop" (dict "sleep" (dict "seconds" 5))) -}}
{{- end -}}
{{- $_ := set $pod "containers" (list $container) -}}
{{- range $key := list "imagePullSecrets" "nodeSelector" "tolerations" "affinity" -}}
{{- if index $values $key }}{{ $_ := set $pod $key (index $values $key) }}{{ end -}}
{{- end -}}
{{- if $values.priorityClassName -}}
{{- $_ := set $pod "priorityClassName" $values.priorityClassName -}}
{{- else -}}
{{- $_ := unset $pod "priorityClassName" -}}
{{- end -}}
{{- if $values.highlyAvailable -}}
{{- $_ := set .object.spec "replicas" 2 -}}
{{- $spread := dict "maxSkew" 1 "topologyKey" "kubernetes.io/hostname" "whenUnsatisfiable" "ScheduleAnyway" "labelSelector" .object.spec.selector -}}
{{- $_ := set $pod "topologySpreadConstraints" (list $spread) -}}
{{- end -}}
{{- toYaml .object -}}
{{- end -}}

{{- /* ConfigMap rescheduler with the document of the values. */ -}}
{{- define "rescheduler.configuration" -}}
{{- $head := dict "apiVersion" "rescheduler.dev/v1alpha1" "kind" "ReschedulerConfiguration" -}}
{{- $document := merge (deepCopy .values.configuration) $head -}}
{{- $_ := set .object "data" (dict "config.yaml" (toYaml $document)) -}}
{{- toYaml .object -}}
{{- end -}}
