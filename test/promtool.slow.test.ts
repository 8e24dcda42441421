/** Checks the metrics, the alert rules and the dashboard with Prometheus' own programs. */
import { execFile } from 'node:child_process'
import { copyFile, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, inject, test } from 'vitest'
import { openApi } from './contract/api.ts'
import { programPath } from './setup/not-run.ts'

const PROMTOOL = programPath('promtool') ?? ''
const ALERTS = 'docs/prometheus/alerts.yml'
const run = promisify(execFile)

test('promtool reports one metric name only', async () => {
  const api = await openApi(inject('postgresUrl'))
  try {
    await api.call('GET', '/tenants')
    const text = await (await api.http.fetch(new Request('http://localhost/metrics'))).text()
    const child = run(PROMTOOL, ['check', 'metrics'])
    child.child.stdin?.end(text)
    const output = await child.then(
      ({ stdout, stderr }) => `${stdout}${stderr}`,
      ({ stdout, stderr }) => `${stdout}${stderr}`,
    )
    // The specification prescribes the name of this gauge.
    expect(output.trim()).toBe('multitenancy_tenants_total non-counter metrics should not have "_total" suffix')
  } finally {
    await api.end()
  }
})

test('the alert rules are valid', async () => {
  expect((await run(PROMTOOL, ['check', 'rules', ALERTS])).stdout).toContain('SUCCESS')
})

test('the command of docs/alerts.md makes every runbook an absolute link to its section', async () => {
  const guide = await readFile('docs/alerts.md', 'utf8')
  const command = /^sed -i .*$/m.exec(guide)?.[0] ?? ''
  const directory = await mkdtemp(join(tmpdir(), 'tenantry-promtool-'))
  try {
    await copyFile(ALERTS, join(directory, 'alerts.yml'))
    await run('sh', ['-c', command], { cwd: directory })
    expect((await run(PROMTOOL, ['check', 'rules', 'alerts.yml'], { cwd: directory })).stdout).toContain('SUCCESS')
    const rules = await readFile(join(directory, 'alerts.yml'), 'utf8')
    const links = [...rules.matchAll(/runbook_url: (\S+)/g)].map(([, link = '']) => new URL(link))
    expect(links.length).toBe(rules.match(/- alert: /g)?.length)
    const sections = [...guide.matchAll(/^### (\w+)$/gm)].map(([, name = '']) => `#${name.toLowerCase()}`)
    expect(links.map(({ hash }) => hash)).toEqual(sections)
    expect(new Set(links.map(({ protocol, pathname }) => protocol + pathname))).toEqual(
      new Set(['https:/ops/tenantry/blob/main/docs/alerts.md']),
    )
  } finally {
    await rm(directory, { recursive: true })
  }
})

test('the queries of the dashboard are valid', async () => {
  const { panels } = JSON.parse(await readFile('docs/prometheus/dashboard.json', 'utf8'))
  const rules = panels.flatMap(({ id, targets }: any) =>
    targets.map(({ expr }: any) => `      - { record: "panel:${id}", expr: ${JSON.stringify(expr)} }`),
  )
  const directory = await mkdtemp(join(tmpdir(), 'tenantry-promtool-'))
  try {
    const file = join(directory, 'rules.yml')
    await writeFile(file, `groups:\n  - name: dashboard\n    rules:\n${rules.join('\n')}\n`)
    expect((await run(PROMTOOL, ['check', 'rules', file])).stdout).toContain(`${panels.length} rules found`)
  } finally {
    await rm(directory, { recursive: true })
  }
})
