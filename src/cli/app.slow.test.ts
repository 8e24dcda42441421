/** Starts the program on the definition of a host: the ready-made service, and the copy of the package that the host has. */
import { cp, mkdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { programWith } from './program.fixture.ts'
import { useProgram } from './program-database.fixture.ts'

const ROOT = join(import.meta.dirname, '../..')
const APP = join(ROOT, 'examples/own-satellite/tenancy.ts')

const program = useProgram(programWith, { NODE_OPTIONS: '--conditions=tenantry-source' })

test('serve of a definition has the operations and migrations of the host', async () => {
  const service = program.start(['--app', APP, 'serve'])
  const [, api = ''] = await service.says(/Admin API +(\S+)/)
  const post = async (path: string, body: object) => {
    const headers = {
      'x-admin-token': program.env.TENANTRY_ADMIN_TOKEN ?? '',
      'content-type': 'application/json',
      prefer: 'wait=20',
    }
    const response = await fetch(`${api}${path}`, { method: 'POST', headers, body: JSON.stringify(body) })
    return response.status
  }
  expect(await post('/tenants', { id: 'acme', name: 'Acme' })).toBe(201)
  expect(await post('/tenants/acme/announcements', { title: 'Hello', body: 'World' })).toBe(201)
  const applied = await program.run('tenant:exec', 'acme', '--sql', 'select count(*) from notes', '--app', APP)
  expect(applied).toMatchObject({ code: 0 })
  service.process.kill('SIGTERM')
  expect(await service.ended).toMatchObject({ code: 0 })
})

test('the program runs the copy of the package that the file resolves', async () => {
  const [copy, host] = [join(program.directory, 'copy'), join(program.directory, 'host')]
  const manifest = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8'))
  await cp(join(ROOT, 'src'), join(copy, 'src'), { recursive: true })
  await symlink(join(ROOT, 'node_modules'), join(copy, 'node_modules'))
  const other = { ...manifest, version: '9.9.9', bin: { tenantry: './src/cli/main.ts' } }
  await writeFile(join(copy, 'package.json'), JSON.stringify(other))
  await mkdir(join(host, 'node_modules'), { recursive: true })
  await symlink(copy, join(host, 'node_modules', 'tenantry'))
  const app = join(host, 'tenancy.ts')
  await writeFile(
    app,
    `import { defineTenancy } from 'tenantry'\nexport default defineTenancy({ isolation: ['schema-pg'] })`,
  )

  const version = async (...argv: string[]) => (await program.run(...argv, '--version')).stdout.trim()
  expect(await version()).toBe(manifest.version)
  expect(await version('--app', app)).toBe('9.9.9')
  expect(await program.run('tenant:list', '--app', app)).toMatchObject({ code: 0 })
  expect(await program.run('tenant:show', 'absent', '--app', app)).toMatchObject({ code: 3 })
})
