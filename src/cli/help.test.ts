/** Tests help, version and OpenAPI document, which need no database. */
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { satellites } from '../service/main.ts'
import { type InProcess, inProcess } from './in-process.fixture.ts'
import { allCommands } from './program.ts'

let directory: string
let tenantry: InProcess

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'tenantry-cli-'))
  tenantry = inProcess({ TENANTRY_DATA_DIR: join(directory, 'data') })
})

afterAll(async () => {
  await tenantry?.close()
  expect(await readdir(directory)).not.toContain('data')
  await rm(directory, { recursive: true, force: true })
})

describe('help', () => {
  test('lists every command, even with an invalid configuration', async () => {
    const { code, stdout, stderr } = await inProcess({ PORT: 'nonsense' }).run('--help')
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    for (const { name, summary } of allCommands()) {
      expect(stdout).toMatch(new RegExp(`^  ${name} .*  ${summary.replaceAll(/[()[\]?.]/g, '\\$&')}$`, 'm'))
    }
    const [own] = stdout.split('\nTenants:')
    expect(own).toMatchInlineSnapshot(`
      "Usage: tenantry <command> [options]

      The control plane of a multi-tenant SaaS.

      Options:
        -V, --version                                                          print the version
        -h, --help                                                             print help

      The service:
        serve [options]                                                        Run the service until Ctrl-C
        dev [options]                                                          Run the service for development, with readable logs
        status [options]                                                       Show the readiness of the service and the result of each check
        doctor [options]                                                       Check the installation, and list problems with remedies
        api [options] <method> <path>                                          Call the running service with the admin token
        login [options] <url>                                                  Store URL and token of a remote service as a profile, and make it current
        profile:list [options]                                                 List the profiles of remote services, without their tokens
        profile:use [options] [profile]                                        Make a profile current, or none: commands run on the database then
        profile:remove [options] <profile>                                     Remove a profile with its token
        openapi [options]                                                      Print the OpenAPI document of the service
        completion [options] <shell>                                           Print a shell script that completes commands, options and ids of tenants
        backoffice:setup [options]                                             Create the schema, roles and queues in the backoffice database. Safe to run again
        tenant:secrets:reencrypt [options]                                     Encrypt stored secrets of former application keys with the current one. Safe to run again
        tenant:each [options] <command...>                                     Run a command of the system for each tenant of a status, with its id in TENANTRY_TENANT_ID
      "
    `)
  })

  test('is printed without arguments', async () => {
    const { code, stdout } = await tenantry.run()
    expect(code).toBe(0)
    expect(stdout).toMatch(/^Usage: tenantry <command>/)
  })

  test('of one command lists its arguments and options', async () => {
    const [asked, help] = await Promise.all([tenantry.run('tenant:create', '--help'), tenantry.run('help', 'api')])
    expect(asked.stdout).toMatchInlineSnapshot(`
      "Usage: tenantry tenant:create [options] <name>

      Create a tenant and wait until it is active

      Arguments:
        name                        name of the customer

      Options:
        --id <id>                   your own id; default: a UUIDv7
        --plan <plan>               plan, written to metadata.plan
        --metadata <json>           a JSON object
        --domain <domain>           host name of the tenant (can be repeated)
        --isolation <driver>        isolation driver
        --placement <name>          PostgreSQL server
        --wait <seconds>            wait for the installation (default: 30)
        --allow-different-settings  run although a running process has other settings

      Options of every command:
        --json                      print the result as one JSON value
        --yes                       confirm destructive commands without a prompt
        --app <file>                use the definition or configuration in this file
        --config <file>             the same
        --profile <name>            run on the remote service of this profile
        -h, --help                  print help
      "
    `)
    expect(help.stdout).toMatchInlineSnapshot(`
      "Usage: tenantry api [options] <method> <path>

      Call the running service with the admin token

      Arguments:
        method                 GET, POST, PUT, PATCH or DELETE
        path                   path in the API description, such as /tenants, with or
                               without the prefix

      Options:
        --data <json>          body of the request; @file reads a file, - reads
                               standard input
        --header <name:value>  header of the request (can be repeated)
        --url <url>            URL of the service; default: the one of this
                               configuration

      Options of every command:
        --json                 print the result as one JSON value
        --yes                  confirm destructive commands without a prompt
        --app <file>           use the definition or configuration in this file
        --config <file>        the same
        --profile <name>       run on the remote service of this profile
        -h, --help             print help
      "
    `)
  })

  test('of an unknown command ends with 2, and names the most similar command', async () => {
    const { code, stdout, stderr } = await tenantry.run('help', 'tenant:creat')
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toMatch(/^error: unknown command 'tenant:creat'\n\(Did you mean tenant:create\?\)\n/)
    expect((await tenantry.run('help', 'help')).code).toBe(0)
  })

  test('of completion shows how each shell loads the script', async () => {
    const { stdout } = await tenantry.run('help', 'completion')
    expect(stdout.slice(stdout.indexOf('To load the'))).toBe(
      [
        'To load the script in every shell, add the line of your shell to the file next to it:',
        '  source <(tenantry completion bash)                               ~/.bashrc',
        '  source <(tenantry completion zsh)                                ~/.zshrc, after compinit',
        '  tenantry completion fish | source                                ~/.config/fish/config.fish',
        '  tenantry completion powershell | Out-String | Invoke-Expression  $PROFILE',
        '',
      ].join('\n'),
    )
  })

  test('--version prints the version of the package', async () => {
    const { version } = JSON.parse(await readFile(new URL('../../package.json', import.meta.url), 'utf8'))
    expect(await tenantry.run('--version')).toEqual({ code: 0, stdout: `${version}\n`, stderr: '' })
  })
})

/** Any satellite: tests outside the folder of a satellite do not name it. */
const [one = expect.fail('No satellite exists.')] = satellites

describe('openapi', () => {
  test('prints the document of enabled operations, with the prefix', async () => {
    const { code, stdout, stderr } = await tenantry.start(['openapi'], { env: { TENANTRY_PREFIX: '/ops/' } }).ended
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    const paths = Object.keys(JSON.parse(stdout).paths)
    expect(paths).toContain('/ops/tenants/{id}')
    for (const { path } of one.operations ?? []) expect(paths).toContain(`/ops${path}`)
    expect(paths.every((path) => path.startsWith('/ops/'))).toBe(true)
  })

  test('--out writes the document to a file, without the operations of disabled satellites', async () => {
    const config = join(directory, 'quiet.json')
    const file = join(directory, 'openapi.json')
    await writeFile(config, JSON.stringify({ satellites: { [one.name]: false } }))
    const { code, stdout } = await tenantry.run('openapi', '--config', config, '--out', file)
    expect({ code, stdout }).toEqual({ code: 0, stdout: `wrote ${file}\n` })
    const paths = Object.keys(JSON.parse(await readFile(file, 'utf8')).paths)
    for (const { path } of one.operations ?? []) expect(paths).not.toContain(`/admin/multitenancy${path}`)
  })
})
