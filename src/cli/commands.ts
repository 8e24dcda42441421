/** The program's own commands: those that speak of the service itself. Each is loaded when it is asked for. */
import type { Option } from '../kernel/api/commands.ts'
import type { OwnInput } from './parser/own-input.ts'
import type { Described } from './parser/parser.ts'

export interface OwnCommand extends Described {
  readonly run: (input: OwnInput) => Promise<void>
}

export const OWN_HEADING = 'The service:'

const url: Option = { flags: '--url <url>', summary: 'of the service; absent: the one that runs on the data directory' }

export const ownCommands: readonly OwnCommand[] = [
  {
    name: 'serve',
    summary: 'Run the service until Ctrl-C',
    run: async (input) => (await import('./commands/serve.ts')).serve(input),
  },
  {
    name: 'dev',
    summary: 'Run the service for development, with readable logs',
    run: async (input) => {
      input.context.env.NODE_ENV = 'development'
      await (await import('./commands/serve.ts')).serve(input, { hasReadableLogs: true })
    },
  },
  {
    name: 'status',
    summary: 'Say whether the service is ready, and what its checks say',
    options: [url],
    run: async (input) => (await import('./commands/status.ts')).status(input),
  },
  {
    name: 'doctor',
    summary: 'Say what is wrong, and what to do about it',
    options: [
      { flags: '--prove', summary: 'prove the isolation of tenants from the catalogs of their servers too' },
      {
        flags: '--show-sql',
        summary: 'with the beginning of statements that run for long, whatever values stand in it',
      },
      { flags: '--fix', summary: 'put right what can be without harm, and say what stands then' },
      { flags: '--dry-run', summary: 'with --fix: only say what it would put right' },
    ],
    run: async (input) => (await import('./commands/doctor.ts')).doctor(input),
  },
  {
    name: 'api',
    summary: 'Call the running service with the admin token',
    arguments: [
      { name: 'method', summary: 'GET, POST, PUT, PATCH or DELETE', required: true },
      { name: 'path', summary: 'as in the API description: /tenants; with the prefix or without', required: true },
    ],
    options: [
      { flags: '--data <json>', summary: 'body of the request; @file reads a file, - standard input' },
      { flags: '--header <name:value...>', summary: 'a header of the request; may be given again' },
      url,
    ],
    run: async (input) => (await import('./commands/api.ts')).api(input),
  },
  {
    name: 'openapi',
    summary: 'Print the OpenAPI document of the service',
    options: [{ flags: '--out <file>', summary: 'write it to this file' }],
    run: async (input) => (await import('./commands/openapi.ts')).openapi(input),
  },
  {
    name: 'completion',
    summary: 'Print what a shell has to read to complete commands, options and ids of tenants',
    arguments: [{ name: 'shell', summary: 'bash, zsh, fish or powershell', required: true }],
    notes: [
      'To load it in every shell, put its line into the file behind it:',
      '  source <(tenantry completion bash)                               ~/.bashrc',
      '  source <(tenantry completion zsh)                                ~/.zshrc, after compinit',
      '  tenantry completion fish | source                                ~/.config/fish/config.fish',
      '  tenantry completion powershell | Out-String | Invoke-Expression  $PROFILE',
    ],
    run: async (input) => (await import('./completion/completion.ts')).completion(input),
  },
  {
    name: 'backoffice:setup',
    summary: 'Make the schema, roles and queues in the backoffice database; again does no harm',
    run: async (input) => (await import('./commands/backoffice-setup.ts')).setUpBackoffice(input),
  },
  {
    name: 'tenant:secrets:reencrypt',
    summary: 'Seal under the present application key what was sealed under a former one; again does no harm',
    run: async (input) => (await import('./commands/reencrypt.ts')).reencrypt(input),
  },
]
