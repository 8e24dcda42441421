/** Declares the program's own commands, which concern the service itself; each is loaded when it runs. */
import { ARGUMENT_END, type Option } from '../kernel/api/commands.ts'
import { count } from '../kernel/api/option-values.ts'
import { invalid } from '../kernel/base/errors.ts'
import { STATUSES, type Status } from '../tenants/tenant/lifecycle.ts'
import type { OwnInput } from './parser/own-input.ts'
import type { Described } from './parser/parser.ts'

export interface OwnCommand extends Described {
  readonly run: (input: OwnInput) => Promise<void>
}

export const OWN_HEADING = 'The service:'

function tenantStatus(text: string): Status {
  const status = STATUSES.find((one) => one === text)
  if (status) return status
  throw invalid([{ path: '', message: `"${text}" must be one of ${STATUSES.join(', ')}` }])
}

export const ALLOW_DIFFERENT: Option = {
  flags: '--allow-different-settings',
  summary: 'run although a running process has other settings',
}

const url: Option = { flags: '--url <url>', summary: 'URL of the service; default: the one of this configuration' }

const demo = { flags: '--demo', summary: 'create sample tenants first; rejected in production' }

export const ownCommands: readonly OwnCommand[] = [
  {
    name: 'serve',
    isOwnMachine: true,
    summary: 'Run the service until Ctrl-C',
    options: [demo],
    run: async (input) => (await import('./commands/serve.ts')).serve(input),
  },
  {
    name: 'dev',
    isOwnMachine: true,
    summary: 'Run the service for development, with readable logs',
    options: [demo],
    run: async (input) => {
      input.context.env.NODE_ENV = 'development'
      await (await import('./commands/serve.ts')).serve(input, { hasReadableLogs: true })
    },
  },
  {
    name: 'status',
    summary: 'Show the readiness of the service and the result of each check',
    options: [url],
    run: async (input) => (await import('./commands/status.ts')).status(input),
  },
  {
    name: 'doctor',
    summary: 'Check the installation, and list problems with remedies',
    notes: ['--list, --check, --prove, --show-sql and --fix run on the database only, not on a remote service.'],
    options: [
      { flags: '--list', summary: 'only list the checks' },
      { flags: '--check <name...>', summary: 'run only this check of --list' },
      {
        flags: '--watch <seconds>',
        summary: 'check at this interval, and print each report that differs from the last one',
        parse: count,
      },
      { flags: '--prove', summary: 'also prove the isolation of tenants from the catalogs of their servers' },
      {
        flags: '--show-sql',
        summary: 'show the beginning of long-running statements, including the values in it',
      },
      { flags: '--fix', summary: 'fix the findings that are safe to fix, and check again' },
      { flags: '--dry-run', summary: 'with --fix: only list the fixes' },
      { ...ALLOW_DIFFERENT, summary: 'with --fix: fix although a running process has other settings' },
    ],
    run: async (input) => (await import('./commands/doctor.ts')).doctor(input),
  },
  {
    name: 'api',
    summary: 'Call the running service with the admin token',
    arguments: [
      { name: 'method', summary: 'GET, POST, PUT, PATCH or DELETE', required: true },
      {
        name: 'path',
        summary: 'path in the API description, such as /tenants, with or without the prefix',
        required: true,
      },
    ],
    options: [
      { flags: '--data <json>', summary: 'body of the request; @file reads a file, - reads standard input' },
      { flags: '--header <name:value...>', summary: 'header of the request' },
      url,
    ],
    run: async (input) => (await import('./commands/api.ts')).api(input),
  },
  {
    name: 'login',
    readsNoConfig: true,
    summary: 'Store URL and token of a remote service as a profile, and make it current',
    arguments: [{ name: 'url', summary: 'URL of the service, such as https://tenants.example.com', required: true }],
    notes: [
      'The token is read from the terminal without echo, or from standard input:',
      '  tenantry login https://tenants.example.com --profile production < token.txt',
      'The profile is named default without --profile.',
    ],
    run: async (input) => (await import('./commands/profiles.ts')).login(input),
  },
  {
    name: 'profile:list',
    readsNoConfig: true,
    isOwnMachine: true,
    summary: 'List the profiles of remote services, without their tokens',
    run: async (input) => (await import('./commands/profiles.ts')).listProfiles(input),
  },
  {
    name: 'profile:use',
    readsNoConfig: true,
    isOwnMachine: true,
    summary: 'Make a profile current, or none: commands run on the database then',
    arguments: [{ name: 'profile', summary: 'name of the profile; absent: none' }],
    run: async (input) => (await import('./commands/profiles.ts')).useProfile(input),
  },
  {
    name: 'profile:remove',
    readsNoConfig: true,
    isOwnMachine: true,
    summary: 'Remove a profile with its token',
    arguments: [{ name: 'profile', summary: 'name of the profile', required: true }],
    run: async (input) => (await import('./commands/profiles.ts')).removeProfile(input),
  },
  {
    name: 'openapi',
    isOwnMachine: true,
    summary: 'Print the OpenAPI document of the service',
    options: [{ flags: '--out <file>', summary: 'write the document to this file' }],
    run: async (input) => (await import('./commands/openapi.ts')).openapi(input),
  },
  {
    name: 'completion',
    readsNoConfig: true,
    isOwnMachine: true,
    summary: 'Print a shell script that completes commands, options and ids of tenants',
    arguments: [{ name: 'shell', summary: 'bash, zsh, fish or powershell', required: true }],
    notes: [
      'To load the script in every shell, add the line of your shell to the file next to it:',
      '  source <(tenantry completion bash)                               ~/.bashrc',
      '  source <(tenantry completion zsh)                                ~/.zshrc, after compinit',
      '  tenantry completion fish | source                                ~/.config/fish/config.fish',
      '  tenantry completion powershell | Out-String | Invoke-Expression  $PROFILE',
    ],
    run: async (input) => (await import('./completion/completion.ts')).completion(input),
  },
  {
    name: 'backoffice:setup',
    isLocal: true,
    summary: 'Create the schema, roles and queues in the backoffice database. Safe to run again',
    run: async (input) => (await import('./commands/backoffice-setup.ts')).setUpBackoffice(input),
  },
  {
    name: 'tenant:secrets:reencrypt',
    isLocal: true,
    summary: 'Encrypt stored secrets of former application keys with the current one. Safe to run again',
    run: async (input) => (await import('./commands/reencrypt.ts')).reencrypt(input),
  },
  {
    name: 'tenant:each',
    isLocal: true,
    summary: 'Run a command of the system for each tenant of a status, with its id in TENANTRY_TENANT_ID',
    arguments: [
      {
        name: 'command',
        summary: 'the command and its arguments, after --',
        required: true,
        isRepeatable: true,
        separator: ARGUMENT_END,
      },
    ],
    options: [
      { flags: '--status <status>', summary: 'only tenants in this status; default: active', parse: tenantStatus },
      { flags: '--concurrency <count>', summary: 'number of concurrent commands', parse: count, default: 4 },
      { flags: '--resume <run>', summary: 'continue this run with its unfinished and failed tenants' },
    ],
    notes: [
      'Each line of output begins with the tenant. The exit code is 6 if the command failed for a tenant.',
      '  tenantry tenant:each --concurrency 8 -- node scripts/reindex.js --all',
    ],
    run: async (input) => (await import('./commands/tenant-each.ts')).tenantEach(input),
  },
]
