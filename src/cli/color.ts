/** Whether a stream takes colours: https://no-color.org */
export const usesColor = ({ isTTY = false }: { readonly isTTY?: boolean }): boolean =>
  isTTY && !process.env.NO_COLOR && process.env.TERM !== 'dumb'
