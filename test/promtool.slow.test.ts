/** Checks the metrics, the alert rules and the dashboard with Prometheus' own programs. */
import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
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
