/** Renders the Kustomize base of the deployment examples with kubectl, without a cluster. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { loadConfig } from '../src/service/config.ts'
import { satellites } from '../src/service/main.ts'
import { Environment } from '../src/service/settings/environment.ts'
import { TEST_APP_KEY } from '../src/testing/base/tenancy.ts'
import { EXAMPLES, read } from './deployment.fixture.ts'
import { blocks } from './guides.fixture.ts'
import { programPath } from './setup/not-run.ts'

const SECRETS = {
  DATABASE_URL: 'postgres://tenantry@postgres/tenantry',
  TENANTRY_APP_KEY: TEST_APP_KEY,
  TENANTRY_ADMIN_TOKEN: 'a-token-for-the-tests',
}
/** Work in progress ends within this time. */
const STOP_SECONDS = 11

let directory: string
let rendered: string
let manifests: readonly any[]
let deployments: readonly any[]
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'tenantry-kubernetes-'))
  await cp(join(EXAMPLES, 'kubernetes'), join(directory, 'kubernetes'), { recursive: true })
  await mkdir(join(directory, 'overlay'))
  const overlay = blocks.find(({ guide, text }) => guide === 'deployment' && text.includes('kind: Kustomization'))
  // Debian's kubectl 1.20 knows only the former name of a base.
  const kustomization = overlay?.text.replace('resources: [../kubernetes]', 'bases: [../kubernetes]')
  await writeFile(join(directory, 'overlay/kustomization.yaml'), kustomization ?? '')
  rendered = await kubectl('', 'kustomize', join(directory, 'overlay'))
  manifests = objectsOf(await kubectl(rendered, 'annotate', '--local', '-f', '-', '-o', 'json', 'by=test'))
  deployments = manifests.filter(({ kind }) => kind === 'Deployment')
}, 60_000)
afterAll(() => rm(directory, { recursive: true, force: true }))

async function kubectl(input: string, ...args: string[]): Promise<string> {
  const child = spawn(programPath('kubectl') ?? '', args, { env: { HOME: directory } })
  child.stdin.on('error', () => undefined).end(input)
  const [output, errors, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
  expect({ code, errors }).toMatchObject({ code: 0 })
  return output
}

/** Objects of JSON documents that follow each other. */
const objectsOf = (output: string): any[] =>
  output
    .trim()
    .split(/(?<=^\})\n(?=\{)/m)
    .map((one) => JSON.parse(one))

/** Paths of all members, without positions in lists. */
function pathsOf(value: unknown, at = ''): string[] {
  if (typeof value !== 'object' || value === null) return [at]
  const entries = Array.isArray(value) ? value.map((one) => ['[]', one] as const) : Object.entries(value)
  return entries.length === 0 ? [at] : entries.flatMap(([key, one]) => pathsOf(one, `${at}.${key}`))
}

test('the overlay of the guide renders two deployments, a service, two disruption budgets and the configuration', () => {
  expect(manifests.map(({ kind, metadata }) => `${kind} ${metadata.namespace}/${metadata.name}`).toSorted()).toEqual([
    expect.stringMatching(/^ConfigMap tenantry\/tenantry-[a-z0-9]+$/),
    'Deployment tenantry/tenantry-api',
    'Deployment tenantry/tenantry-worker',
    'PodDisruptionBudget tenantry/tenantry-api',
    'PodDisruptionBudget tenantry/tenantry-worker',
    'Service tenantry/tenantry',
  ])
  for (const { spec } of deployments) {
    expect(spec.template.spec.containers[0].image).toBe('registry.example.com/tenantry:1')
  }
})

test('Kubernetes knows every field of the deployments', async () => {
  const documents = rendered.split(/^---$/m).filter((document) => /^kind: Deployment$/m.test(document))
  // Decoded by its types, in contrast to `annotate`: an unknown field is lost.
  const typed = objectsOf(
    await kubectl(documents.join('---'), 'set', 'image', '--local', '-f', '-', 'tenantry=x', '-o', 'json'),
  )
  expect(typed).toHaveLength(deployments.length)
  for (const [index, { metadata: _, ...deployment }] of deployments.entries()) {
    expect(pathsOf(typed[index])).toEqual(expect.arrayContaining(pathsOf(deployment)))
  }
})

test('every process reads its configuration, with the role of its deployment', async () => {
  const config = manifests.find(({ kind }) => kind === 'ConfigMap')
  const port = Number(/^EXPOSE (\d+)$/m.exec(await read('Dockerfile'))?.[1])
  for (const { metadata, spec } of deployments) {
    expect(spec.replicas).toBe(2)
    expect(spec.selector.matchLabels).toEqual(spec.template.metadata.labels)
    const [container] = spec.template.spec.containers
    const env = Object.fromEntries(container.env.map(({ name, value }: any) => [name, value]))
    for (const name of Object.keys(env)) expect(Object.keys(Environment.shape)).toContain(name)
    expect(metadata.name).toBe(`tenantry-${env.TENANTRY_ROLE}`)
    expect(container.envFrom).toEqual([{ secretRef: { name: 'tenantry' } }])
    expect(container.ports[0].containerPort).toBe(port)
    const [volume] = spec.template.spec.volumes
    expect(volume.configMap.name).toBe(config.metadata.name)
    const [file = ''] = Object.keys(config.data)
    expect(env.TENANTRY_CONFIG).toBe(join(container.volumeMounts[0].mountPath, file))
    await writeFile(join(directory, file), config.data[file])
    const loaded = await loadConfig({
      env: { ...env, ...SECRETS, NODE_ENV: 'production', TENANTRY_CONFIG: join(directory, file) },
      satellites,
    })
    expect(loaded.role).toBe(env.TENANTRY_ROLE)
    expect(loaded.health.drainSeconds).toBe(0)
  }
})

test('probes, drain period and rights are those of the guide', () => {
  for (const { spec } of deployments) {
    const { containers, terminationGracePeriodSeconds, automountServiceAccountToken } = spec.template.spec
    const [{ livenessProbe, readinessProbe, startupProbe, lifecycle, securityContext }] = containers
    expect([startupProbe, livenessProbe, readinessProbe].map(({ httpGet }) => httpGet.path)).toEqual([
      '/livez',
      '/livez',
      '/readyz',
    ])
    const waited = Number(lifecycle.preStop.exec.command.at(-1))
    expect(terminationGracePeriodSeconds).toBeGreaterThan(waited + STOP_SECONDS)
    expect(automountServiceAccountToken).toBe(false)
    expect(securityContext).toEqual({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    })
  }
})

test('the service and the disruption budgets select the processes of their role', () => {
  const labelsOf = (role: string) =>
    deployments.find(({ metadata }) => metadata.name === `tenantry-${role}`).spec.template.metadata.labels
  expect(manifests.find(({ kind }) => kind === 'Service').spec.selector).toEqual(labelsOf('api'))
  for (const role of ['api', 'worker']) {
    const budget = manifests.find(
      ({ kind, metadata }) => kind === 'PodDisruptionBudget' && metadata.name === `tenantry-${role}`,
    )
    expect(budget.spec.selector.matchLabels).toEqual(labelsOf(role))
  }
})
