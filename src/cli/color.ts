/** Whether a stream takes colours: https://no-color.org */
export const usesColor = (stream: NodeJS.WriteStream): boolean =>
  stream.isTTY && !process.env.NO_COLOR && process.env.TERM !== 'dumb'
