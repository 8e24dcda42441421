/**
 * Finds phrases that no statement and no function of an imported file may contain: changes of role or scope, access to
 * other servers and to files. The server rejects most of them too, for lack of rights; the message is better here.
 *
 * A text that a function executes dynamically is not read.
 */
import { isSign, isWords, type Token } from './tokens.ts'

const FUNCTIONS =
  /^(dblink\w*|lo_(import|export)|set_config|pg_(read|write)_\w*file|pg_execute_\w+|pg_ls_dir|postgres_fdw_\w+)$/
/** Words before a statement inside of a body. */
const BEFORE_A_STATEMENT = new Set(['begin', 'then', 'else', 'loop', 'atomic', 'declare'])
const OBJECTS =
  'role|user|group|extension|database|system|event|server|foreign|language|publication|subscription|tablespace|policy|rule|cast|operator|transform'

/** Returns the token and the reason. */
export function forbiddenIn(tokens: readonly Token[]): { readonly token: Token; readonly reason: string } | undefined {
  let isCopy = false
  for (const [at, token] of tokens.entries()) {
    const { word } = token
    if (isSign(token, ';')) isCopy = false
    const reason = reasonAt(tokens, at, isCopy)
    if (reason !== undefined) return { token, reason }
    if (word === 'copy' && isStatement(tokens, at)) isCopy = true
  }
  return undefined
}

function reasonAt(tokens: readonly Token[], at: number, isCopy: boolean): string | undefined {
  const { word = '', name = '' } = tokens[at] ?? {}
  if (FUNCTIONS.test(name) && isSign(tokens[at + 1], '(')) return `${name} reaches beyond the storage of the tenant`
  if (isWords(tokens, at, 'security definer'))
    return 'SECURITY DEFINER runs with the rights of the owner of all tenants'
  if (word === 'program' && isCopy) return 'COPY with PROGRAM runs a program on the server'
  if (!isStatement(tokens, at)) return undefined
  const changesRole =
    isWords(tokens, at, 'set|reset role') ||
    isWords(tokens, at, 'set local|session role') ||
    isWords(tokens, at, 'set|reset session') ||
    isWords(tokens, at, 'set local session')
  if (changesRole) return 'a statement of a tenant must not change its role'
  if (isWords(tokens, at, `create|alter|drop ${OBJECTS}`)) {
    return `${word.toUpperCase()} ${tokens[at + 1]?.word.toUpperCase()} is not accepted in a function`
  }
  return undefined
}

const isStatement = (tokens: readonly Token[], at: number): boolean => {
  const before = tokens[at - 1]
  return before === undefined || isSign(before, ';') || BEFORE_A_STATEMENT.has(before.word)
}
