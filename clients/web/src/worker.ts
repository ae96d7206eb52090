/*
 * The service worker: a script to be served as it is, or to be taken into a worker of one's own by `importScripts` or `import`.
 */
import { RingWorker, type WorkerOptions, type WorkerScope } from "./ringing.js";

export type { WorkerOptions, WorkerTexts } from "./ringing.js";

declare const self: WorkerScope & { bellwire?: WorkerOptions };

new RingWorker(self, self.bellwire);
