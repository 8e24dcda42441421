/** Tests the npm scripts of a clone, and the configuration in docs/operating.md. */
import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test, vi } from 'vitest'
import { PROGRAM, programWith } from './program.fixture.ts'
import { useProgram } from './program-database.fixture.ts'

vi.setConfig({ testTimeout: 60_000 })

const ROOT = join(import.meta.dirname, '../..')
const STOP_MS = 20_000

const tenantry = useProgram(programWith)

test('the configuration in docs/operating.md can be loaded', async () => {
  const page = await readFile(join(ROOT, 'docs/operating.md'), 'utf8')
  const [, example = ''] = page.match(/```ts\n([\s\S]*?)```/) ?? []
  expect(example).toContain("from 'tenantry'")
  const { directory } = tenantry
  await mkdir(join(directory, 'node_modules'))
  await symlink(ROOT, join(directory, 'node_modules/tenantry'))
  await mkdir(join(directory, 'migrations'))
  const config = join(directory, 'tenantry.config.ts')
  await writeFile(config, example)
  const env = { OPS_TOKEN: 'a-token-for-operators', DASHBOARD_TOKEN: 'a-token-for-dashboards' }
  const through = [process.execPath, '--conditions=tenantry-source', PROGRAM, 'openapi', '--config', config] as const
  const { code, stdout, stderr } = await tenantry.start([], { env, through, stdin: '' }).ended
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  const { tags } = JSON.parse(stdout)
  expect(tags).not.toContainEqual({ name: 'branding' })
})

test('the scripts start, dev and tenantry resolve the package to its source, and run Node without a shell', async () => {
  const { scripts } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8'))
  for (const name of ['start', 'dev', 'tenantry'])
    expect(scripts[name]).toMatch(/^exec node --conditions=tenantry-source /)
})

test('npm start ends with its service when only npm receives SIGTERM', async () => {
  const printPid = `if (process.argv[1]?.endsWith('main.ts')) console.error('service', process.pid)`
  const env = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(printPid)}` }
  const service = tenantry.start([], { env, through: ['npm', 'start'], stdin: '' })
  const [, pid] = await service.says(/^service (\d+)$/m)
  try {
    await service.says(/Stop with Ctrl-C\./)
    service.process.kill('SIGTERM')
    const timeUp = new Promise((resolve) => setTimeout(resolve, STOP_MS, 'still running').unref())
    // Both processes share the pipes, so `ended` resolves after both have ended.
    expect(await Promise.race([service.ended.then(() => 'ended'), timeUp])).toBe('ended')
    expect(() => process.kill(Number(pid), 0)).toThrow(/ESRCH/)
  } finally {
    end(Number(pid))
  }
})

function end(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // The process has ended.
  }
}
