/** Decides whether a stream has colors: https://no-color.org */
export const usesColor = (
  { isTTY = false }: { readonly isTTY?: boolean },
  { env }: { readonly env: NodeJS.ProcessEnv },
): boolean => isTTY && !env.NO_COLOR && env.TERM !== 'dumb'
