/**
 * Invisible characters that reverse or separate their neighbors. These characters can make a name look like another
 * name.
 */
const deceptive = /[\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;

/** Replaces these characters by visible characters. Joiners stay, because some scripts and emoji need joiners. */
export const plain = (text: string): string => text.replace(deceptive, "\ufffd");

/** Characters that are invisible when they stand alone, including the replacements by `plain`. */
const unseen = /[\p{Default_Ignorable_Code_Point}\p{White_Space}\p{Cc}\p{Cf}\p{Mn}\p{Me}\u2800\ufffd]/gu;

/** Whether any part of the text is visible. */
export const isSeen = (text: string): boolean => text.replace(unseen, "") !== "";
